//! What an image must be: digests that are committed beside its lock, embedded here, and checked before every session.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::lock::{self, Lock};
use crate::{runtime, sha256};

/// The identity of an image. Engines name it by its config or by its manifest; the layers are the same everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// Debian's and OCI's name: `amd64`, `arm64`.
    pub architecture: String,
    /// `sha256:...` of the manifest.
    pub manifest: String,
    /// `sha256:...` of the config: the image ID in most engines.
    pub config: String,
    /// `sha256:...` of each uncompressed layer, lowest first.
    pub diff_ids: Vec<String>,
    /// Size of the archive that holds it.
    pub archive_bytes: Option<u64>,
}

/// Why digests cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(
        "cannot read the digests {path:?}; `guest-image build --lock ...` writes them beside the lock"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the digests {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no JSON of the right shape.
    #[error("the digests in {path:?} are not valid")]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A digest is no digest.
    #[error("the digests in {path:?} are not valid: {text:?} is not sha256 and 64 hex digits")]
    Digest {
        /// The file.
        path: PathBuf,
        /// What stands there.
        text: String,
    },
}

/// The file: the digests, and what they were made from, so that stale ones are found without a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    schema: u32,
    flavour: String,
    architecture: String,
    lock: String,
    runtime: String,
    manifest: String,
    config: String,
    diff_ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_bytes: Option<u64>,
}

/// The digests that this program was built with; `None` where there is no such image.
pub fn committed(flavour: &str, architecture: &str) -> Option<Digests> {
    let name = format!("{flavour}.{architecture}.digest.json");
    let text = lock::embedded_file(&name)?;
    Record::parse(text.as_bytes(), Path::new(&name))
        .ok()
        .map(Record::into_digests)
}

impl Digests {
    /// Reads the digests that belong to the lock at `lock_path`: the file beside it, `x.digest.json` for `x.json`.
    pub fn read(lock_path: &Path) -> Result<Self, Error> {
        let path = Self::path(lock_path);
        let bytes = fs::read(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        Ok(Record::parse(&bytes, &path)?.into_digests())
    }

    /// The digests beside a lock, if they were made from this very lock and this program's runtime.
    pub(crate) fn of(lock: &Lock, lock_path: &Path) -> Result<Option<Self>, Error> {
        let path = Self::path(lock_path);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        let record = Record::parse(&bytes, &path)?;
        let digests = record.clone().into_digests();
        let fresh = Record::new(&digests, lock).is_ok_and(|fresh| fresh == record);
        Ok(fresh.then_some(digests))
    }

    /// Where the digests of the lock at `lock_path` are.
    pub fn path(lock_path: &Path) -> PathBuf {
        lock_path.with_extension("digest.json")
    }

    /// Writes them beside their lock, whole or not at all.
    pub fn write(&self, lock: &Lock, lock_path: &Path) -> Result<PathBuf, Error> {
        let path = Self::path(lock_path);
        let failed = |source| Error::Write {
            path: path.clone(),
            source,
        };
        let text = Record::new(self, lock)
            .and_then(|record| serde_json::to_string_pretty(&record))
            .map_err(|source| Error::Json {
                path: path.clone(),
                source,
            })?;
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let mut file =
            tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
        std::io::Write::write_all(&mut file, (text + "\n").as_bytes()).map_err(failed)?;
        readable(file.path()).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(path)
    }
}

/// Temporary files are private; what is kept is for everyone to read.
pub(crate) fn readable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

impl Record {
    fn new(digests: &Digests, lock: &Lock) -> Result<Self, serde_json::Error> {
        Ok(Self {
            schema: 1,
            flavour: lock.flavour.clone(),
            architecture: lock.architecture.clone(),
            lock: sha256::digest(&serde_json::to_vec(lock)?),
            runtime: runtime::Runtime::embedded().digest(),
            manifest: digests.manifest.clone(),
            config: digests.config.clone(),
            diff_ids: digests.diff_ids.clone(),
            archive_bytes: digests.archive_bytes,
        })
    }

    pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let record: Self = serde_json::from_slice(bytes).map_err(|source| Error::Json {
            path: path.to_owned(),
            source,
        })?;
        let all = [&record.manifest, &record.config]
            .into_iter()
            .chain(&record.diff_ids);
        for text in all {
            if !text.strip_prefix("sha256:").is_some_and(sha256::is_hex) {
                return Err(Error::Digest {
                    path: path.to_owned(),
                    text: text.chars().take(80).collect(),
                });
            }
        }
        Ok(record)
    }

    fn into_digests(self) -> Digests {
        Digests {
            architecture: self.architecture,
            manifest: self.manifest,
            config: self.config,
            diff_ids: self.diff_ids,
            archive_bytes: self.archive_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;

    /// Fast, and needs no inputs: were the committed digests written for this lock and this runtime?
    #[test]
    fn committed_digests_are_fresh() {
        for architecture in Architecture::ALL {
            let name = format!("base.{architecture}.digest.json");
            let text = lock::embedded_file(&name).expect(&name);
            let record = Record::parse(text.as_bytes(), Path::new(&name)).expect(&name);
            let lock = Lock::embedded("base", architecture).expect("a good lock");
            let how = "the lock or guest-image/runtime changed: run `cargo run -p guest-image -- digest --write`, commit guest-image/lock";
            assert_eq!(
                record.lock,
                lock.digest().expect("a good lock"),
                "{name}: {how}"
            );
            assert_eq!(
                record.runtime,
                runtime::Runtime::embedded().digest(),
                "{name}: {how}"
            );
            assert_eq!(
                committed("base", architecture.name()).map(|digests| digests.architecture),
                Some(record.architecture)
            );
        }
        assert_eq!(committed("base", "riscv64"), None);
    }

    #[test]
    fn digests_round_trip_beside_their_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = Lock::embedded("base", Architecture::Amd64).expect("a good lock");
        let digests = Digests {
            architecture: "amd64".to_owned(),
            manifest: sha256::digest(b"m"),
            config: sha256::digest(b"c"),
            diff_ids: vec![sha256::digest(b"1"), sha256::digest(b"2")],
            archive_bytes: Some(7),
        };
        let path = folder.path().join("mine.json");
        assert!(matches!(Digests::read(&path), Err(Error::Read { .. })));
        let written = digests.write(&lock, &path).expect("a writable folder");
        assert_eq!(written, folder.path().join("mine.digest.json"));
        assert_eq!(Digests::read(&path).expect("just written"), digests);
        assert_eq!(
            Digests::of(&lock, &path).expect("just written"),
            Some(digests.clone())
        );
        let other = Lock::embedded("base", Architecture::Arm64).expect("a good lock");
        assert_eq!(
            Digests::of(&other, &path).expect("just written"),
            None,
            "made from another lock"
        );
        let text = fs::read_to_string(&written).expect("just written");
        let runtime = runtime::Runtime::embedded().digest();
        fs::write(&written, text.replace(&runtime, &sha256::digest(b"older")))
            .expect("a writable folder");
        assert_eq!(
            Digests::of(&lock, &path).expect("just written"),
            None,
            "made with another runtime"
        );
        fs::write(&written, text).expect("a writable folder");
        let text = fs::read_to_string(&written)
            .expect("just written")
            .replace(&digests.config, "sha256:12");
        fs::write(&written, text).expect("a writable folder");
        assert!(matches!(Digests::read(&path), Err(Error::Digest { .. })));
    }
}
