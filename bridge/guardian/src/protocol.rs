//! What the bridge tells its guardian, a line each, and what follows from all of it.
//!
//! | line | meaning |
//! |---|---|
//! | `container-owner TEXT` | containers may exist; TEXT says on which engine and whose |
//! | `in-order` | every container is known to be gone; earlier owners are forgotten |
//! | `group + N` | the process group N is to end with the bridge |
//! | `group - N` | the process group N has ended |

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use rustix::process::Pid;

/// One line of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    ContainerOwner(String),
    InOrder,
    GroupStarted(Pid),
    GroupEnded(Pid),
}

impl Line {
    /// Reads a line without its end; `None` for anything that is not part of the protocol.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "in-order" {
            return Some(Self::InOrder);
        }
        let (word, rest) = text.split_once(' ')?;
        match (word, rest.split_once(' ')) {
            ("container-owner", _) => Some(Self::ContainerOwner(rest.to_owned())),
            ("group", Some(("+", number))) => Some(Self::GroupStarted(group(number)?)),
            ("group", Some(("-", number))) => Some(Self::GroupEnded(group(number)?)),
            _ => None,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContainerOwner(text) => writeln!(f, "container-owner {text}"),
            Self::InOrder => writeln!(f, "in-order"),
            Self::GroupStarted(group) => writeln!(f, "group + {}", group.as_raw_nonzero()),
            Self::GroupEnded(group) => writeln!(f, "group - {}", group.as_raw_nonzero()),
        }
    }
}

/// A signal to group 1, or to a negative one, would reach every process of the user.
fn group(number: &str) -> Option<Pid> {
    let number = number.parse().ok().filter(|number| *number > 1)?;
    Pid::from_raw(number)
}

/// What has to be cleaned up should the bridge die now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Guarded {
    pub(super) owners: BTreeSet<String>,
    pub(super) groups: HashSet<Pid>,
}

impl Guarded {
    pub(super) fn apply(&mut self, line: Line) {
        match line {
            Line::ContainerOwner(text) => {
                self.owners.insert(text);
            }
            Line::InOrder => self.owners.clear(),
            Line::GroupStarted(group) => {
                self.groups.insert(group);
            }
            Line::GroupEnded(group) => {
                self.groups.remove(&group);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.groups.is_empty()
    }

    /// The lines that lead to this state, for a guardian that starts late.
    pub(super) fn lines(&self) -> String {
        let owners = self.owners.iter().cloned().map(Line::ContainerOwner);
        let groups = self.groups.iter().copied().map(Line::GroupStarted);
        owners.chain(groups).map(|line| line.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).expect("not zero")
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for line in [
            Line::ContainerOwner(r#"{"endpoint":"unix:///a b"}"#.to_owned()),
            Line::InOrder,
            Line::GroupStarted(pid(42)),
            Line::GroupEnded(pid(42)),
        ] {
            let text = line.to_string();
            assert_eq!(Line::parse(text.trim_end_matches('\n')), Some(line));
        }
    }

    #[test]
    fn groups_that_mean_everybody_are_ignored() {
        for text in [
            "group + 1",
            "group + 0",
            "group + -5",
            "group + x",
            "group +",
            "",
            "+5",
        ] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
    }

    #[test]
    fn state_can_be_told_anew() {
        let mut guarded = Guarded::default();
        guarded.apply(Line::ContainerOwner("old".to_owned()));
        guarded.apply(Line::InOrder);
        assert!(guarded.is_empty());
        guarded.apply(Line::ContainerOwner("new".to_owned()));
        guarded.apply(Line::GroupStarted(pid(7)));
        guarded.apply(Line::GroupStarted(pid(8)));
        guarded.apply(Line::GroupEnded(pid(7)));
        let mut again = Guarded::default();
        for line in guarded.lines().lines() {
            again.apply(Line::parse(line).expect("own words"));
        }
        assert_eq!(again, guarded);
    }
}
