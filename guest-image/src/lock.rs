//! The lock: every input of an image by name, version, size and SHA-256, with no host's address in it.

mod input;
mod tags;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use input::Input;
use input::is_word;
pub(crate) use input::{MAX_INPUT_BYTES, MIRROR};

use crate::architecture::{Architecture, UnknownArchitecture};
use crate::sha256;

/// The only schema there is.
const SCHEMA: u32 = 1;
/// A lock itself is small.
const MAX_LOCK_BYTES: usize = 1 << 20;

/// The embedded locks and digests, by file name.
static EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/lock_files.rs"));

/// What one image is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    schema: u32,
    /// Which set of packages: `base`.
    pub flavour: String,
    /// Debian's name of the architecture.
    pub architecture: String,
    /// The suite of Debian that the packages are from.
    pub suite: String,
    /// A moment, as the snapshot archive writes it, at which that suite held all of them.
    pub snapshot: String,
    /// The inputs, sorted by kind and name.
    pub inputs: Vec<Input>,
    /// Packages of that moment that are no part of the image: libraries that wheels may ask for, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Input>,
}

/// Why a lock cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the lock {path:?}")]
    Read {
        /// The lock.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No lock of that name is embedded.
    #[error("there is no lock for flavour {flavour:?} on {architecture} (there are: {known})")]
    Unknown {
        /// Asked for.
        flavour: String,
        /// Asked for.
        architecture: Architecture,
        /// What there is.
        known: String,
    },
    /// It is no JSON of the right shape.
    #[error("the lock is not valid JSON of schema {SCHEMA}")]
    Json(#[from] serde_json::Error),
    /// It says something that cannot be.
    #[error("the lock is wrong: {subject}: {why}")]
    Invalid {
        /// The input or field.
        subject: String,
        /// What is wrong.
        why: &'static str,
    },
    /// For a machine that no image is made for.
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

    /// The lock in a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&bytes)
    }

    /// Reads and checks a lock.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_LOCK_BYTES {
            return Err(invalid("size", "it is far too large"));
        }
        let lock: Self = serde_json::from_slice(bytes)?;
        lock.check()?;
        Ok(lock)
    }

    /// The lock as it is written to a file.
    pub fn to_json(&self) -> Result<String, Error> {
        self.check()?;
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The sum of its content, however it is laid out.
    pub fn digest(&self) -> Result<String, Error> {
        Ok(sha256::digest(&serde_json::to_vec(self)?))
    }

    /// The machine it is for.
    pub fn architecture(&self) -> Result<Architecture, Error> {
        Ok(self.architecture.parse()?)
    }

    /// The version of the interpreter, by its package.
    pub fn python_version(&self) -> Option<&str> {
        self.inputs
            .iter()
            .find(|input| input.name() == "python3.14-minimal")
            .map(Input::version)
    }

    /// A lock like `self` but for its inputs and its moment.
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

    /// Whether an input can be one of this lock.
    pub(crate) fn accepts(&self, input: &Input) -> Result<(), Error> {
        input.check(self.architecture()?, self.glibc())
    }

    /// The version of its libc; `None` where it has none that can be read.
    fn glibc(&self) -> Option<(u32, u32)> {
        let libc = self.inputs.iter().find(|input| input.name() == "libc6")?;
        let (major, rest) = libc.version().split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    fn check(&self) -> Result<(), Error> {
        if self.schema != SCHEMA {
            return Err(invalid("schema", "this program knows another schema only"));
        }
        self.architecture()?;
        if !is_word(&self.flavour) || !is_word(&self.suite) {
            return Err(invalid("flavour or suite", "it is no plain word"));
        }
        if !is_snapshot(&self.snapshot) {
            return Err(invalid(
                "snapshot",
                "it is not written like 20261030T200801Z",
            ));
        }
        if self.inputs.is_empty() || self.inputs.len() + self.libraries.len() > 500 {
            return Err(invalid("inputs", "there are none or far too many"));
        }
        for list in [&self.inputs, &self.libraries] {
            if !list.is_sorted_by(|a, b| a.key() < b.key()) {
                return Err(invalid(
                    "inputs",
                    "they are not sorted, or one is there twice",
                ));
            }
        }
        let mut all = self.inputs.iter().chain(&self.libraries);
        all.try_for_each(|input| self.accepts(input))
    }
}

/// A committed file of the folder `lock`, embedded when this program was built.
pub(crate) fn embedded_file(name: &str) -> Option<&'static str> {
    EMBEDDED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// The flavours there are, each with its architecture.
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
    fn committed_locks_are_good_and_as_this_program_writes_them() {
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
    fn wrong_locks_are_refused() {
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
    fn wheels_have_names_and_tags() {
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
        let refusal = |tags| {
            lock.accepts(&wheel(tags))
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(refusal("py3-none-any"), None);
        assert_eq!(refusal("cp314-cp314-manylinux_2_28_aarch64"), None);
        let told = refusal("cp314-cp314-manylinux_2_28_x86_64").expect("another machine's");
        assert!(told.contains("another machine"), "{told}");
        assert!(refusal("cp314-cp314-manylinux_2_99_aarch64").is_some());
        assert!(refusal("../py3-none-any").is_some());
    }
}
