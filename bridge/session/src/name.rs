//! Names of sessions: they become container labels and words in answers, so they are kept plain and
//! short.

use std::sync::Arc;

use crate::api::Error;

/// The session of a call that names none.
const DEFAULT: &str = "default";

/// Characters in a name.
const LIMIT: usize = 64;

/// The checked name of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionName(Arc<str>);

impl SessionName {
    /// Checks the name that a call gave.
    pub(crate) fn parse(name: Option<&str>) -> Result<Self, Error> {
        let name = name.unwrap_or(DEFAULT);
        if is_session_name(name) {
            Ok(Self(name.into()))
        } else {
            Err(Error::BadName {
                name: name.chars().take(LIMIT).collect(),
                limit: LIMIT,
            })
        }
    }

    /// The name as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a session can have this name.
pub fn is_session_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= LIMIT
        && name.bytes().all(plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_short() {
        let check = |name: &str, good: bool| {
            assert_eq!(SessionName::parse(Some(name)).is_ok(), good, "{name:?}");
        };
        for good in ["a", "7", "data-2.x_y", &"n".repeat(64)] {
            check(good, true);
        }
        for bad in [
            "",
            " a",
            "a b",
            "-a",
            ".",
            "a/b",
            "é",
            "a\0",
            "a\n",
            &"n".repeat(65),
        ] {
            check(bad, false);
        }
        assert_eq!(SessionName::parse(None).unwrap().as_str(), "default");
    }
}
