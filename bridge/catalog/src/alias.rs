//! Names that Python can spell: `git-hub` becomes `git_hub`.
//!
//! The original name always works through `call("name", ...)`; these are for attribute access.

use std::collections::{BTreeMap, BTreeSet};

/// What is named: decides the alias of a name without a usable character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// `server`
    Server,
    /// `tool`
    Tool,
}

/// The keywords of Python that are all lower case; the others cannot come out of [`alias`].
const KEYWORDS: [&str; 32] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
    "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda",
    "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// A Python name for a server or tool: lower case, each run of other characters than `[a-z0-9_]` one `_`, a leading
/// digit gets `_` in front, a keyword `_` behind.
pub fn alias(name: &str, of: Of) -> String {
    let mut alias = String::with_capacity(name.len());
    let mut in_run = false;
    for character in name.chars().flat_map(char::to_lowercase) {
        let kept = matches!(character, 'a'..='z' | '0'..='9' | '_');
        match (kept, in_run) {
            (true, _) => alias.push(character),
            (false, false) => alias.push('_'),
            (false, true) => {}
        }
        in_run = !kept;
    }
    if alias.is_empty() {
        alias.push_str(match of {
            Of::Server => "server",
            Of::Tool => "tool",
        });
    }
    if alias.starts_with(|first: char| first.is_ascii_digit()) {
        alias.insert(0, '_');
    }
    if KEYWORDS.contains(&alias.as_str()) {
        alias.push('_');
    }
    alias
}

/// Aliases for all names of one namespace, each different. Where several names share an alias, the name that equals it
/// keeps it and the others get `_2`, `_3`, ... in alphabetical order, so the order of files or of a server's list does
/// not matter.
pub fn aliases<'a>(names: impl IntoIterator<Item = &'a str>, of: Of) -> BTreeMap<&'a str, String> {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    // The next number per alias: a server may offer thousands of names that all become `_`.
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let mut result = BTreeMap::new();
    let (natural, others): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| alias(name, of) == ***name);
    for name in natural.into_iter().chain(others) {
        let plain = alias(name, of);
        // 1 means the alias without a number.
        let number = next.entry(plain.clone()).or_insert(1);
        let candidate = loop {
            let candidate = if *number == 1 {
                plain.clone()
            } else {
                format!("{plain}_{number}")
            };
            *number += 1;
            if taken.insert(candidate.clone()) {
                break candidate;
            }
        };
        result.insert(name, candidate);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_compatibility_page() {
        for (name, expected) in [
            ("github", "github"),
            ("git-hub", "git_hub"),
            ("Git  Hub!!", "git_hub_"),
            ("get-user", "get_user"),
            ("a.b", "a_b"),
            ("a/b", "a_b"),
            ("1st", "_1st"),
            ("naïve", "na_ve"),
            ("import", "import_"),
            ("None", "none"),
            ("Class", "class_"),
            ("", "server"),
            ("---", "_"),
            ("日本語", "_"),
            ("snake_case", "snake_case"),
            ("__x__", "__x__"),
            ("camelCase", "camelcase"),
        ] {
            assert_eq!(alias(name, Of::Server), expected, "{name:?}");
        }
        assert_eq!(alias("", Of::Tool), "tool");
    }

    #[test]
    fn colliding_names_get_suffixes_that_do_not_depend_on_order() {
        let expected = BTreeMap::from([
            ("a-b", "a_b_2".to_owned()),
            ("a.b", "a_b_3".to_owned()),
            ("a_b", "a_b".to_owned()),
        ]);
        assert_eq!(aliases(["a.b", "a_b", "a-b"], Of::Tool), expected);
        assert_eq!(aliases(["a-b", "a.b", "a_b"], Of::Tool), expected);
    }

    #[test]
    fn suffixed_alias_never_takes_the_name_of_another() {
        let result = aliases(["x", "X", "x_2"], Of::Tool);
        assert_eq!(result["x_2"], "x_2");
        assert_eq!(result["x"], "x");
        assert_eq!(result["X"], "x_3");
    }

    proptest::proptest! {
        #[test]
        fn an_alias_is_always_a_python_name(name in "(?s).{0,40}") {
            let alias = alias(&name, Of::Server);
            proptest::prop_assert!(!alias.is_empty());
            proptest::prop_assert!(alias.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_')));
            proptest::prop_assert!(!alias.starts_with(|c: char| c.is_ascii_digit()));
            proptest::prop_assert!(!KEYWORDS.contains(&alias.as_str()));
        }

        #[test]
        fn no_two_names_share_an_alias(names in proptest::collection::btree_set("[aA._2-]{0,4}", 0..30)) {
            let result = aliases(names.iter().map(String::as_str), Of::Tool);
            let distinct: BTreeSet<_> = result.values().collect();
            proptest::prop_assert_eq!(distinct.len(), names.len());
        }
    }
}
