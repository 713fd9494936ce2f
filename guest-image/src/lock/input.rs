//! One input of a lock, and what makes it valid.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Error, invalid, tags};
use crate::architecture::Architecture;
use crate::sha256;

/// The start of a deb's URL, which stands for any Debian mirror.
pub(crate) const MIRROR: &str = "mirror://debian/";
pub(crate) const MAX_INPUT_BYTES: u64 = 256 << 20;

/// One file that the image is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Input {
    /// A Debian package.
    Deb {
        name: String,
        /// With its epoch, where there is one.
        version: String,
        /// That of the lock, or `all`.
        architecture: String,
        /// In lower-case hex.
        sha256: String,
        /// In bytes.
        size: u64,
        /// `mirror://debian/pool/...`.
        url: String,
    },
    /// A Python wheel.
    Wheel {
        /// As in the name of the file, but with hyphens instead of underscores.
        name: String,
        /// As in the name of the file.
        version: String,
        /// Python, ABI and platform, such as `py3-none-any`, after the build number if there is
        /// one.
        tags: String,
        /// In lower-case hex.
        sha256: String,
        /// In bytes.
        size: u64,
    },
}

impl Input {
    pub fn name(&self) -> &str {
        match self {
            Self::Deb { name, .. } | Self::Wheel { name, .. } => name,
        }
    }

    pub fn version(&self) -> &str {
        match self {
            Self::Deb { version, .. } | Self::Wheel { version, .. } => version,
        }
    }

    pub fn sha256(&self) -> &str {
        match self {
            Self::Deb { sha256, .. } | Self::Wheel { sha256, .. } => sha256,
        }
    }

    pub fn size(&self) -> u64 {
        match self {
            Self::Deb { size, .. } | Self::Wheel { size, .. } => *size,
        }
    }

    /// The name of the file on a mirror or in a folder.
    pub fn file_name(&self) -> String {
        match self {
            Self::Deb { url, .. } => url.rsplit('/').next().unwrap_or_default().to_owned(),
            Self::Wheel {
                name,
                version,
                tags,
                ..
            } => format!("{}-{version}-{tags}.whl", name.replace('-', "_")),
        }
    }

    /// The path on a Debian mirror; `None` for a wheel.
    pub(crate) fn mirror_path(&self) -> Option<&str> {
        match self {
            Self::Deb { url, .. } => url.strip_prefix(MIRROR),
            Self::Wheel { .. } => None,
        }
    }

    pub(super) fn key(&self) -> (u8, &str) {
        match self {
            Self::Deb { name, .. } => (0, name),
            Self::Wheel { name, .. } => (1, name),
        }
    }

    /// Checks whether this can be an input of an image for `lock` with that version of glibc.
    pub(super) fn check(&self, lock: Architecture, glibc: Option<(u32, u32)>) -> Result<(), Error> {
        let wrong = |why| Err(invalid(self.name(), why));
        if !is_word(self.name()) || !is_word(self.version()) {
            return wrong("its name or version has characters that are not allowed");
        }
        if !sha256::is_hex_digest(self.sha256()) {
            return wrong("its sha256 is not 64 lower-case hex digits");
        }
        if self.size() == 0 || self.size() > MAX_INPUT_BYTES {
            return wrong("its size is not between 1 byte and 256 MiB");
        }
        match self {
            Self::Deb {
                architecture, url, ..
            } => {
                let path = url.strip_prefix(MIRROR).unwrap_or_default();
                let plain = path.split('/').all(is_word) && !path.contains("..");
                if !path.starts_with("pool/")
                    || !plain
                    || Path::new(path).extension().is_none_or(|end| end != "deb")
                {
                    return wrong("its url is not mirror://debian/pool/....deb");
                }
                if architecture != "all" && architecture != lock.name() {
                    return wrong("it is for another architecture");
                }
            }
            Self::Wheel { tags, .. } => {
                if !is_word(tags) {
                    return wrong("its tags have characters that are not allowed");
                }
                if let Some(why) = tags::incompatibility(tags, lock, glibc) {
                    return wrong(why);
                }
            }
        }
        Ok(())
    }
}

/// Whether `text` has only the characters of package names, versions and pool paths, and is neither
/// empty nor hidden.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text.len() <= 200
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".+-_~:".contains(&byte))
}
