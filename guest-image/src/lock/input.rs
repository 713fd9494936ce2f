//! One input of a lock, and what can be true of one.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Error, invalid, tags};
use crate::architecture::Architecture;
use crate::sha256;

/// What a deb's address starts with: any mirror of Debian.
pub(crate) const MIRROR: &str = "mirror://debian/";
/// No input may be larger.
pub(crate) const MAX_INPUT_BYTES: u64 = 256 << 20;

/// One file that goes into the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Input {
    /// A Debian package.
    Deb {
        /// Its name.
        name: String,
        /// Its version, epoch included.
        version: String,
        /// Its own architecture: that of the lock, or `all`.
        architecture: String,
        /// Sum of the file, in hex.
        sha256: String,
        /// Bytes of the file.
        size: u64,
        /// `mirror://debian/pool/...`.
        url: String,
    },
    /// A Python wheel.
    Wheel {
        /// Its name as its file spells it, but for hyphens instead of underscores.
        name: String,
        /// Its version as its file spells it.
        version: String,
        /// Python, ABI and platform, such as `py3-none-any`; before them the number of the build, where there is one.
        tags: String,
        /// Sum of the file, in hex.
        sha256: String,
        /// Bytes of the file.
        size: u64,
    },
}

impl Input {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Deb { name, .. } | Self::Wheel { name, .. } => name,
        }
    }

    /// Its version.
    pub fn version(&self) -> &str {
        match self {
            Self::Deb { version, .. } | Self::Wheel { version, .. } => version,
        }
    }

    /// Its sum in hex.
    pub fn sha256(&self) -> &str {
        match self {
            Self::Deb { sha256, .. } | Self::Wheel { sha256, .. } => sha256,
        }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Deb { size, .. } | Self::Wheel { size, .. } => *size,
        }
    }

    /// The name that its file has on a mirror or in a folder.
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

    /// Its path on a mirror of Debian.
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

    /// Whether it can be part of an image for `lock` with that version of glibc.
    pub(super) fn check(&self, lock: Architecture, glibc: Option<(u32, u32)>) -> Result<(), Error> {
        let wrong = |why| Err(invalid(self.name(), why));
        if !is_word(self.name()) || !is_word(self.version()) {
            return wrong("its name or version has characters that it cannot have");
        }
        if !sha256::is_hex(self.sha256()) {
            return wrong("its sha256 is not 64 lower-case hex digits");
        }
        if self.size() == 0 || self.size() > MAX_INPUT_BYTES {
            return wrong("its size cannot be");
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
                    return wrong("its tags have characters that they cannot have");
                }
                if let Some(why) = tags::refusal(tags, lock, glibc) {
                    return wrong(why);
                }
            }
        }
        Ok(())
    }
}

/// Characters that package names, versions and pool paths are made of; no part is hidden or empty.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text.len() <= 200
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".+-_~:".contains(&byte))
}
