//! How far two words are apart, for "did you mean" and for search despite typos.

/// Edits (insert, delete, replace, swap of neighbours) from one word to the other, if at most `most`.
pub(super) fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    if one == other {
        return Some(0);
    }
    let one: Vec<char> = one.chars().take(LONGEST + 1).collect();
    let other: Vec<char> = other.chars().take(LONGEST + 1).collect();
    if one.len().abs_diff(other.len()) > most || one.len() > LONGEST || other.len() > LONGEST {
        return None;
    }
    let mut before = [0_usize; LONGEST + 1];
    let mut last: [usize; LONGEST + 1] = std::array::from_fn(|column| column);
    let mut row = [0_usize; LONGEST + 1];
    for (i, a) in one.iter().enumerate() {
        row[0] = i + 1;
        let mut best = row[0];
        for (j, b) in other.iter().enumerate() {
            let mut cost = (last[j] + usize::from(a != b))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                cost = cost.min(before[j - 1] + 1);
            }
            row[j + 1] = cost;
            best = best.min(cost);
        }
        if best > most {
            return None;
        }
        (before, last, row) = (last, row, before);
    }
    Some(last[other.len()]).filter(|distance| *distance <= most)
}

/// Longer words are names of nothing that people type.
const LONGEST: usize = 48;

/// The candidate that was most likely meant, if any is near enough.
pub(super) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
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
    fn the_closest_is_suggested_or_none() {
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
