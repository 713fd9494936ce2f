//! A path inside the image: relative, normalised, in UTF-8 and of bounded length.

use std::borrow::Borrow;
use std::fmt;

/// In bytes, well below the kernel's own limit.
const MAX_PATH: usize = 1024;
/// In folders.
const MAX_DEPTH: usize = 32;

/// A relative path without `.`, `..`, empty parts, NUL, backslash or newline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TreePath(String);

/// A path that is not allowed in an image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{path:?} {why}")]
pub struct BadPath {
    /// At most 200 bytes of it.
    pub path: String,
    pub why: &'static str,
}

impl TreePath {
    /// Parses a path as archives write it (`./usr/bin/`, `usr/bin`); `None` is the root.
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
            return Err(bad("has a character that is not allowed"));
        }
        let mut parts = Vec::new();
        for part in text.trim_end_matches('/').split('/') {
            match part {
                "." if parts.is_empty() => {}
                "" if text.is_empty() => return Err(bad("is empty")),
                "" | "." => return Err(bad("is not normalised")),
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

    /// A path that this program chose.
    pub(crate) fn known(text: &str) -> Result<Self, BadPath> {
        Self::parse(text.as_bytes())?.ok_or_else(|| BadPath {
            path: text.to_owned(),
            why: "names no file",
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub(crate) fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The part of the name after its last dot, or nothing.
    pub(crate) fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, end)| end)
    }

    /// The folder that contains this path; `None` at the top.
    pub(crate) fn parent(&self) -> Option<Self> {
        self.0
            .rsplit_once('/')
            .map(|(parent, _)| Self(parent.to_owned()))
    }

    /// All folders above this path, from the top.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }

    /// Whether this is `folder` or a path below it.
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
    fn paths_of_archives_are_normalised() {
        check("./", Ok(None));
        check(".", Ok(None));
        check("./usr/bin/", Ok(Some("usr/bin")));
        check("usr/lib/..data", Ok(Some("usr/lib/..data")));
    }

    #[test]
    fn paths_that_could_leave_the_image_are_rejected() {
        check("/etc/passwd", Err("is absolute"));
        check("../etc", Err("leaves the image"));
        check("usr/../../etc", Err("leaves the image"));
        check("usr/./bin", Err("is not normalised"));
        check("usr//bin", Err("is not normalised"));
        check("", Err("is empty"));
        check("a\\b", Err("has a character that is not allowed"));
        check(&"x/".repeat(33), Err("is too deep"));
        check(&"x".repeat(256), Err("has a part that is too long"));
        check(&"x".repeat(1025), Err("is too long"));
        assert!(TreePath::parse(b"\xff").is_err());
    }

    #[test]
    fn ancestors_of_a_path() {
        let path = TreePath::known("usr/lib/x").expect("a good path");
        assert_eq!(path.ancestors().collect::<Vec<_>>(), ["usr", "usr/lib"]);
        assert!(path.is_within("usr/lib") && path.is_within("usr/lib/x"));
        assert!(!path.is_within("usr/li"));
        assert_eq!(path.name(), "x");
    }
}
