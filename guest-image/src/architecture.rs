//! The processor architectures that guest images exist for, and how they differ.

use std::fmt;
use std::str::FromStr;

/// A processor architecture that guest images exist for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

/// The name of an architecture without a guest image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no guest image for the architecture {0:?}: use amd64 or arm64")]
pub struct UnknownArchitecture(pub String);

impl Architecture {
    /// All architectures, sorted by name.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// The architecture of this machine; `None` where images cannot be built on it.
    pub fn host() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" if cfg!(target_os = "linux") => Some(Self::Amd64),
            "aarch64" if cfg!(target_os = "linux") => Some(Self::Arm64),
            _ => None,
        }
    }

    /// The name that both Debian and OCI use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The name of the folder below `usr/lib` that holds the shared libraries.
    pub(crate) fn triplet(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// The file name of the dynamic loader.
    pub(crate) fn loader(self) -> &'static str {
        match self {
            Self::Amd64 => "ld-linux-x86-64.so.2",
            Self::Arm64 => "ld-linux-aarch64.so.1",
        }
    }

    /// The suffix of the platform tags of wheels for this architecture.
    pub(crate) fn wheel_suffix(self) -> &'static str {
        match self {
            Self::Amd64 => "_x86_64",
            Self::Arm64 => "_aarch64",
        }
    }

    /// The architecture of an ELF file; `None` unless it is 64-bit, little-endian and one of
    /// [`ALL`].
    ///
    /// [`ALL`]: Self::ALL
    pub fn of_elf(file: &[u8]) -> Option<Self> {
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        match u16::from_le_bytes([*file.get(18)?, *file.get(19)?]) {
            62 => Some(Self::Amd64),
            183 => Some(Self::Arm64),
            _ => None,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|architecture| architecture.name() == name)
            .ok_or_else(|| UnknownArchitecture(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elf_header_gives_the_architecture() {
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
        assert_eq!(
            Architecture::of_elf(&elf),
            None,
            "truncated before the machine field"
        );
        elf.extend_from_slice(&[62, 0]);
        assert_eq!(Architecture::of_elf(&elf), Some(Architecture::Amd64));
        elf[18] = 183;
        assert_eq!(Architecture::of_elf(&elf), Some(Architecture::Arm64));
        elf[18] = 3;
        assert_eq!(Architecture::of_elf(&elf), None);
        assert_eq!(Architecture::of_elf(b"#!/bin/sh"), None);
    }

    #[test]
    fn names_round_trip() {
        for architecture in Architecture::ALL {
            assert_eq!(architecture.name().parse(), Ok(architecture));
        }
        assert!("x86_64".parse::<Architecture>().is_err());
    }
}
