//! What the host requires of a tool before it writes the file: a name that Python accepts, and a source that defines it
//! and does not break the file's own marks. Everything else is up to the guest, and to whoever reads the file.

use super::marks::{MARKS, looks_like_a_mark};
use crate::Error;

/// The largest source, in bytes.
const LONGEST: usize = 256 << 10;
/// The longest name, in characters.
const LONGEST_NAME: usize = 80;
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// The source as it is stored: without blank lines around it, and with `\n` as line ends.
pub(super) fn source(name: &str, source: &str) -> Result<String, Error> {
    let bad = |reason: String| Err(Error::BadTool { reason });
    if !is_name(name) {
        let shown: String = name.chars().take(40).collect();
        return bad(format!(
            "invalid name {shown:?}: use at most {LONGEST_NAME} letters, digits and _, starting with a letter, and not a keyword"
        ));
    }
    let source = source.replace("\r\n", "\n");
    let source = source.trim_matches('\n').trim_end();
    if source.len() > LONGEST {
        return Err(Error::TooLarge {
            what: format!("tool {name:?}"),
            size: source.len() as u64,
            limit: LONGEST as u64,
            setting: "fixed",
        });
    }
    let odd =
        |character: &char| character.is_control() && !matches!(character, '\n' | '\t' | '\u{c}');
    if let Some(odd) = source.chars().find(odd) {
        return bad(format!(
            "its source has a control character (U+{:04X})",
            u32::from(odd)
        ));
    }
    if source.lines().any(looks_like_a_mark) {
        return bad(format!(
            "a line of its source begins like the marks of user_tools.py ({MARKS})"
        ));
    }
    if !source.lines().any(|line| defines(line, name)) {
        return bad(format!(
            "its source has no line that begins with `def {name}` or `class {name}`"
        ));
    }
    Ok(format!("{source}\n"))
}

/// Whether this is a public identifier, with letters of any language, as in Python.
pub(super) fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(char::is_alphabetic);
    let rest = characters.all(|character| character.is_alphanumeric() || character == '_');
    first && rest && name.chars().count() <= LONGEST_NAME && !KEYWORDS.contains(&name)
}

/// Whether the line defines the name at the top level.
fn defines(line: &str, name: &str) -> bool {
    let rest = ["def ", "async def ", "class "]
        .iter()
        .find_map(|word| line.strip_prefix(word));
    let rest = rest.and_then(|rest| rest.trim_start().strip_prefix(name));
    rest.is_some_and(|rest| {
        !rest.starts_with(|character: char| character.is_alphanumeric() || character == '_')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(name: &str, text: &str) -> String {
        source(name, text).expect_err("refused").to_string()
    }

    #[test]
    fn tools_are_text_with_a_name() {
        assert_eq!(
            source("f", "\n\ndef f():\r\n    pass  \n\n").unwrap(),
            "def f():\n    pass\n"
        );
        assert!(source("f", "import re\n@decorated\nasync def f(): pass").is_ok());
        assert!(source("größe", "class größe:\n    pass").is_ok());
        for bad in [
            "",
            "1f",
            "_f",
            "f g",
            "f/g",
            "..",
            "class",
            "f\n",
            "f-g",
            &"f".repeat(81),
        ] {
            assert!(
                refused(bad, &format!("def {bad}(): pass")).contains("invalid name"),
                "{bad:?}"
            );
        }
        assert!(refused("f", "def g(): pass").contains("def f"));
        assert!(refused("f", "def ff(): pass").contains("def f"));
        assert!(refused("f", "def f(): pass\n# <<< tool f\nprint()").contains("marks"));
        assert!(refused("f", "def f(): pass\n  # >>> tool g").contains("marks"));
        assert!(refused("f", "def f(): '\0'").contains("U+0000"));
        assert!(
            refused("f", &format!("def f():\n    '{}'", "x".repeat(LONGEST))).contains("bytes")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(name in ".{0,12}", text in ".{0,60}") {
            let _ = source(&name, &text);
            prop_assert!(!is_name(&name) || !name.contains(['/', '.', '\0']));
        }
    }
}
