//! The processors that a guest image can be made for, and what differs between them.

use std::fmt;
use std::str::FromStr;

/// A processor architecture, by Debian's (and OCI's) name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

/// An architecture that no image is made for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no guest image is made for the architecture {0:?} (there are: amd64, arm64)")]
pub struct UnknownArchitecture(pub String);

impl Architecture {
    /// Every one, in the order of their names.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// The machine that this program runs on, if an image can be compiled there.
    pub fn host() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" if cfg!(target_os = "linux") => Some(Self::Amd64),
            "aarch64" if cfg!(target_os = "linux") => Some(Self::Arm64),
            _ => None,
        }
    }

    /// Debian's name, which is OCI's as well.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The folder of its libraries below `usr/lib`.
    pub(crate) fn triplet(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// The dynamic loader's file name.
    pub(crate) fn loader(self) -> &'static str {
        match self {
            Self::Amd64 => "ld-linux-x86-64.so.2",
            Self::Arm64 => "ld-linux-aarch64.so.1",
        }
    }

    /// How the platform tag of a wheel for it ends.
    pub(crate) fn wheel_suffix(self) -> &'static str {
        match self {
            Self::Amd64 => "_x86_64",
            Self::Arm64 => "_aarch64",
        }
    }

    /// The architecture of an ELF file; `None` where it is no 64-bit little-endian ELF for one of ours.
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
    fn tells_elf_files_apart() {
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
        assert_eq!(
            Architecture::of_elf(&elf),
            None,
            "cut off before the machine"
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
