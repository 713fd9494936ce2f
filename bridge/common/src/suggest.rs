//! "Did you mean": the known name that is nearest to a misspelt one.

/// Longer words are not names that people type.
const LONGEST: usize = 64;

/// The candidate nearest to `name`, if it is near enough to be what was meant: one wrong letter in
/// three, at least one and at most three. Case does not count.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    if length > LONGEST {
        return None;
    }
    let allowed = (length / 3).clamp(1, 3);
    candidates
        .into_iter()
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| {
            let distance = strsim::osa_distance(&name, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_recognised_and_others_are_not() {
        for (name, candidates, expected) in [
            ("timout", ["timeout", "memory"], Some("timeout")),
            ("Timeout", ["timeout", "memory"], Some("timeout")),
            ("coed", ["code", "reset"], Some("code")),
            ("jirra", ["github", "jira"], Some("jira")),
            ("Comand", ["command", "args"], Some("command")),
            (
                "create_isue",
                ["create-issue", "list"],
                Some("create-issue"),
            ),
            ("zebra", ["timeout", "memory"], None),
            ("x", ["command", "args"], None),
        ] {
            assert_eq!(closest(name, candidates), expected, "{name}");
        }
    }

    #[test]
    fn swapped_or_dropped_letter_is_forgiven() {
        for index in 0..9 {
            let mut letters: Vec<char> = "max_timeout".chars().collect();
            letters.swap(index, index + 1);
            let swapped: String = letters.iter().collect();
            assert_eq!(
                closest(&swapped, ["max_timeout", "memory"]),
                Some("max_timeout")
            );
            letters.remove(index);
            let dropped: String = letters.iter().collect();
            assert_eq!(
                closest(&dropped, ["max_timeout", "memory"]),
                Some("max_timeout")
            );
        }
    }

    #[test]
    fn very_long_names_are_not_compared() {
        assert_eq!(closest(&"x".repeat(1 << 20), ["timeout"]), None);
    }
}
