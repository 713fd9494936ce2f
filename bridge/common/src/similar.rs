//! How far two words are apart, for "did you mean" and for search despite typos.

/// Longer words are not names that people type.
const LONGEST: usize = 48;

/// Edits (insert, delete, replace, swap of neighbours) from one word to the other; `None` if there are more than `most`.
pub fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    if one == other {
        return Some(0);
    }
    let (left, right) = (length(one)?, length(other)?);
    if left.abs_diff(right) > most {
        return None;
    }
    Some(strsim::osa_distance(one, other)).filter(|edits| *edits <= most)
}

fn length(word: &str) -> Option<usize> {
    let length = word.chars().take(LONGEST + 1).count();
    (length <= LONGEST).then_some(length)
}

/// The candidate that was most likely meant, if one is close enough: one edit away for words of up to four characters,
/// two for longer ones. Case does not count.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let most = if word.chars().count() < 5 { 1 } else { 2 };
    candidates
        .into_iter()
        .filter_map(|candidate| {
            Some((distance(&word, &candidate.to_lowercase(), most)?, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (one, other, most, expected) in [
            ("jira", "jira", 0, Some(0)),
            ("jirra", "jira", 2, Some(1)),
            ("jria", "jira", 2, Some(1)),
            ("title", "tittle", 2, Some(1)),
            ("kitten", "sitting", 3, Some(3)),
            ("kitten", "sitting", 2, None),
            ("", "ab", 2, Some(2)),
            ("ä", "a", 1, Some(1)),
        ] {
            assert_eq!(distance(one, other, most), expected, "{one} {other}");
        }
    }

    #[test]
    fn closest_candidate_is_suggested_if_near_enough() {
        assert_eq!(closest("jirra", ["github", "jira"]), Some("jira"));
        assert_eq!(closest("Comand", ["command", "args"]), Some("command"));
        assert_eq!(closest("x", ["command", "args"]), None);
    }

    proptest::proptest! {
        #[test]
        fn distance_is_symmetric_and_never_panics(one in ".{0,60}", other in ".{0,60}") {
            proptest::prop_assert_eq!(distance(&one, &other, 3), distance(&other, &one, 3));
        }
    }
}
