//! The lock: every input of an image by name, version, size and SHA-256. It names no server.

mod input;
mod tags;

use std::path::{Path, PathBuf};

use bridge_common::fs::read_bounded;
use serde::{Deserialize, Serialize};

pub use input::Input;
use input::is_word;
pub(crate) use input::{MAX_INPUT_BYTES, MIRROR};

use crate::architecture::{Architecture, UnknownArchitecture};
use crate::sha256;

const SCHEMA: u32 = 1;
/// The most bytes of a lock file, or of the digests beside it.
pub(crate) const MAX_LOCK_BYTES: u64 = 1 << 20;

/// The embedded locks and digests, by file name.
static EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/lock_files.rs"));

/// The inputs that one image is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    schema: u32,
    /// The set of packages, such as `base`.
    pub flavour: String,
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// The Debian suite that the packages are from.
    pub suite: String,
    /// A time at which the suite had all packages, as snapshot archives write it:
    /// `20261030T200801Z`.
    pub snapshot: String,
    /// The inputs, sorted by kind and name.
    pub inputs: Vec<Input>,
    /// Packages of that time that are not in the image: libraries that wheels may need, sorted by
    /// name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Input>,
}

/// Why a lock cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the lock {path:?}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("no lock for flavour {flavour:?} on {architecture}: use one of {known}")]
    Unknown {
        flavour: String,
        architecture: Architecture,
        known: String,
    },
    #[error("invalid lock: not JSON of schema {SCHEMA}")]
    Json(#[from] serde_json::Error),
    #[error("invalid lock: {subject}: {why}")]
    Invalid {
        /// The input or field that is wrong.
        subject: String,
        why: &'static str,
    },
    #[error(transparent)]
    Architecture(#[from] UnknownArchitecture),
}

impl Lock {
    /// The lock that this program was built with.
    pub fn embedded(flavour: &str, architecture: Architecture) -> Result<Self, Error> {
        let text = embedded_file(&format!("{flavour}.{architecture}.json"));
        let text = text.ok_or_else(|| Error::Unknown {
            flavour: flavour.to_owned(),
            architecture,
            known: flavours().join(", "),
        })?;
        Self::parse(text.as_bytes())
    }

    /// Reads and checks the lock in a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = read_bounded(path, MAX_LOCK_BYTES).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&bytes)
    }

    /// Parses and checks a lock.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let lock: Self = serde_json::from_slice(bytes)?;
        lock.check()?;
        Ok(lock)
    }

    /// The text of a lock file.
    pub fn to_json(&self) -> Result<String, Error> {
        self.check()?;
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The digest of the content, which does not depend on the formatting of the file.
    pub fn digest(&self) -> Result<String, Error> {
        Ok(sha256::digest(&serde_json::to_vec(self)?))
    }

    /// The architecture of the image.
    pub fn architecture(&self) -> Result<Architecture, Error> {
        Ok(self.architecture.parse()?)
    }

    /// The version of the interpreter's package.
    pub fn python_version(&self) -> Option<&str> {
        self.inputs
            .iter()
            .find(|input| input.name() == "python3.14-minimal")
            .map(Input::version)
    }

    /// A copy with other inputs and another snapshot time.
    pub(crate) fn with_inputs(
        &self,
        snapshot: String,
        mut inputs: Vec<Input>,
        mut libraries: Vec<Input>,
    ) -> Result<Self, Error> {
        for list in [&mut inputs, &mut libraries] {
            list.sort_by(|a, b| a.key().cmp(&b.key()));
        }
        let lock = Self {
            snapshot,
            inputs,
            libraries,
            ..self.clone()
        };
        lock.check()?;
        Ok(lock)
    }

    /// Checks whether an input can be added to this lock.
    pub(crate) fn accepts(&self, input: &Input) -> Result<(), Error> {
        input.check(self.architecture()?, self.glibc())
    }

    /// The version of glibc; `None` where the lock has none that can be parsed.
    fn glibc(&self) -> Option<(u32, u32)> {
        let libc = self.inputs.iter().find(|input| input.name() == "libc6")?;
        let (major, rest) = libc.version().split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    fn check(&self) -> Result<(), Error> {
        if self.schema != SCHEMA {
            return Err(invalid("schema", "this program only knows schema 1"));
        }
        self.architecture()?;
        if !is_word(&self.flavour) || !is_word(&self.suite) {
            return Err(invalid(
                "flavour or suite",
                "it has characters that are not allowed",
            ));
        }
        if !is_snapshot(&self.snapshot) {
            return Err(invalid(
                "snapshot",
                "it is not written like 20261030T200801Z",
            ));
        }
        if self.inputs.is_empty() || self.inputs.len() + self.libraries.len() > 500 {
            return Err(invalid("inputs", "there must be 1 to 500 of them"));
        }
        for list in [&self.inputs, &self.libraries] {
            if !list.is_sorted_by(|a, b| a.key() < b.key()) {
                return Err(invalid(
                    "inputs",
                    "they are not sorted, or one occurs twice",
                ));
            }
        }
        let mut all = self.inputs.iter().chain(&self.libraries);
        all.try_for_each(|input| self.accepts(input))
    }
}

/// The text of a committed file of the folder `lock`, as of when this program was built.
pub(crate) fn embedded_file(name: &str) -> Option<&'static str> {
    EMBEDDED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// The names of the embedded locks, such as `base.amd64`.
pub(crate) fn flavours() -> Vec<&'static str> {
    EMBEDDED
        .iter()
        .filter_map(|(name, _)| name.strip_suffix(".json"))
        .filter(|name| !name.ends_with(".digest"))
        .collect()
}

fn invalid(subject: &str, why: &'static str) -> Error {
    Error::Invalid {
        subject: subject.chars().take(100).collect(),
        why,
    }
}

fn is_snapshot(text: &str) -> bool {
    text.len() == 16
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 => byte == b'T',
            15 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(from: &str, to: &str) -> Result<Lock, Error> {
        let text = embedded_file("base.amd64.json").expect("it is embedded");
        assert!(text.contains(from), "{from}");
        Lock::parse(text.replacen(from, to, 1).as_bytes())
    }

    #[test]
    fn committed_locks_are_valid_and_formatted_as_this_program_does() {
        for name in flavours() {
            let text = embedded_file(&format!("{name}.json")).expect("it is listed");
            let lock = Lock::parse(text.as_bytes()).expect(name);
            assert_eq!(format!("{}.{}", lock.flavour, lock.architecture), name);
            assert_eq!(lock.to_json().expect("valid"), text);
            assert!(lock.python_version().is_some());
        }
        assert!(Lock::embedded("nonsense", Architecture::Amd64).is_err());
    }

    #[test]
    fn invalid_locks_are_rejected() {
        assert!(edited("\"schema\": 1", "\"schema\": 1").is_ok());
        for (from, to) in [
            ("\"schema\": 1", "\"schema\": 2"),
            ("\"schema\": 1", "\"schema\": 1, \"more\": 1"),
            ("\"base\"", "\"../base\""),
            ("\"amd64\"", "\"arm64\""),
            ("\"amd64\"", "\"riscv64\""),
            ("20261030T200801Z", "yesterday"),
            ("mirror://debian/pool", "mirror://debian/pool/.."),
            ("mirror://debian/pool", "mirror://debian/pool/.ssh"),
            ("mirror://debian/", "file:///"),
            ("\"size\": 133868", "\"size\": 0"),
            ("\"size\": 133868", "\"size\": 99999999999"),
            ("\"size\": 133868", "\"size\": -1"),
            ("14a3", "14A3"),
            ("\"name\": \"ca-certificates\"", "\"name\": \"zz\""),
            ("\"name\": \"ca-certificates\"", "\"name\": \"\""),
            ("\"kind\": \"deb\"", "\"kind\": \"rpm\""),
        ] {
            assert!(edited(from, to).is_err(), "{from} -> {to}");
        }
    }

    #[test]
    fn wheels_are_accepted_by_their_tags() {
        let wheel = |tags: &str| Input::Wheel {
            name: "some-thing".to_owned(),
            version: "1.2".to_owned(),
            tags: tags.to_owned(),
            sha256: "0".repeat(64),
            size: 1,
        };
        assert_eq!(
            wheel("py3-none-any").file_name(),
            "some_thing-1.2-py3-none-any.whl"
        );
        let lock = Lock::embedded("base", Architecture::Arm64).expect("it is embedded");
        let rejection = |tags| {
            lock.accepts(&wheel(tags))
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(rejection("py3-none-any"), None);
        assert_eq!(rejection("cp314-cp314-manylinux_2_28_aarch64"), None);
        let message = rejection("cp314-cp314-manylinux_2_28_x86_64").expect("a wheel for amd64");
        assert!(message.contains("another machine"), "{message}");
        assert!(rejection("cp314-cp314-manylinux_2_99_aarch64").is_some());
        assert!(rejection("../py3-none-any").is_some());
    }
}
