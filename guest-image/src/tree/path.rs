//! A path inside the image: relative, normal, UTF-8, bounded.

use std::borrow::Borrow;
use std::fmt;

/// Longest path in bytes; the kernel's own limit leaves room for the root.
const MAX_PATH: usize = 1024;
/// Deepest path.
const MAX_DEPTH: usize = 32;

/// A relative path without `.`, `..`, empty parts, NUL or backslash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TreePath(String);

/// A path that has no place in an image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{path:?} {why}")]
pub struct BadPath {
    /// The path, cut where it is long.
    pub path: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl TreePath {
    /// Takes a path as archives write it (`./usr/bin/`, `usr/bin`); `None` is the root itself.
    pub(crate) fn parse(raw: &[u8]) -> Result<Option<Self>, BadPath> {
        let bad = |why| BadPath {
            path: String::from_utf8_lossy(&raw[..raw.len().min(200)]).into_owned(),
            why,
        };
        let text = std::str::from_utf8(raw).map_err(|_| bad("is not UTF-8"))?;
        if text.len() > MAX_PATH {
            return Err(bad("is too long"));
        }
        if text.starts_with('/') {
            return Err(bad("is absolute"));
        }
        if text.contains(['\0', '\\', '\n']) {
            return Err(bad("has a character that no path of the image has"));
        }
        let mut parts = Vec::new();
        for part in text.trim_end_matches('/').split('/') {
            match part {
                "." if parts.is_empty() => {}
                "" if text.is_empty() => return Err(bad("is empty")),
                "" | "." => return Err(bad("is not normal")),
                ".." => return Err(bad("leaves the image")),
                part if part.len() > 255 => return Err(bad("has a part that is too long")),
                part => parts.push(part),
            }
        }
        if parts.len() > MAX_DEPTH {
            return Err(bad("is too deep"));
        }
        Ok((!parts.is_empty()).then(|| Self(parts.join("/"))))
    }

    /// A path written in this program.
    pub(crate) fn known(text: &str) -> Result<Self, BadPath> {
        Self::parse(text.as_bytes())?.ok_or_else(|| BadPath {
            path: text.to_owned(),
            why: "names no file",
        })
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub(crate) fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// What follows the last dot of the name; empty where there is none.
    pub(crate) fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, end)| end)
    }

    /// The parts before the last; `None` at the top.
    pub(crate) fn parent(&self) -> Option<Self> {
        self.0
            .rsplit_once('/')
            .map(|(parent, _)| Self(parent.to_owned()))
    }

    /// Every folder above it, from the top.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }

    /// Whether it is `folder` or lies below it.
    pub(crate) fn is_within(&self, folder: &str) -> bool {
        self.0
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Borrow<str> for TreePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, expected: Result<Option<&str>, &str>) {
        let found = TreePath::parse(raw.as_bytes());
        let found = found
            .as_ref()
            .map(|path| path.as_ref().map(TreePath::as_str));
        assert_eq!(found.map_err(|error| error.why), expected, "{raw:?}");
    }

    #[test]
    fn takes_what_archives_write() {
        check("./", Ok(None));
        check(".", Ok(None));
        check("./usr/bin/", Ok(Some("usr/bin")));
        check("usr/lib/..data", Ok(Some("usr/lib/..data")));
    }

    #[test]
    fn refuses_what_could_leave_the_image() {
        check("/etc/passwd", Err("is absolute"));
        check("../etc", Err("leaves the image"));
        check("usr/../../etc", Err("leaves the image"));
        check("usr/./bin", Err("is not normal"));
        check("usr//bin", Err("is not normal"));
        check("", Err("is empty"));
        check("a\\b", Err("has a character that no path of the image has"));
        check(&"x/".repeat(33), Err("is too deep"));
        check(&"x".repeat(256), Err("has a part that is too long"));
        check(&"x".repeat(1025), Err("is too long"));
        assert!(TreePath::parse(b"\xff").is_err());
    }

    #[test]
    fn knows_its_folders() {
        let path = TreePath::known("usr/lib/x").expect("a good path");
        assert_eq!(path.ancestors().collect::<Vec<_>>(), ["usr", "usr/lib"]);
        assert!(path.is_within("usr/lib") && path.is_within("usr/lib/x"));
        assert!(!path.is_within("usr/li"));
        assert_eq!(path.name(), "x");
    }
}
