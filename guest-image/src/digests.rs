//! What an image must be: its digests, kept in a file beside the lock. The committed ones are
//! embedded in this program.

use std::path::{Path, PathBuf};

use bridge_common::fs::{read_bounded, write_atomic};
use serde::{Deserialize, Serialize};

use crate::lock::{self, Lock, MAX_LOCK_BYTES};
use crate::{runtime, sha256};

/// The identity of an image. Engines use the digest of the config or of the manifest as its ID; the
/// layers are the same in all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// `sha256:...` of the manifest.
    pub manifest: String,
    /// `sha256:...` of the config: the image ID in most engines.
    pub config: String,
    /// `sha256:...` of each uncompressed layer, lowest first.
    pub diff_ids: Vec<String>,
    /// Size in bytes of the archive, where it is known.
    pub archive_bytes: Option<u64>,
}

/// Why digests cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the digests {path:?} (`guest-image build --lock ...` writes them)")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot write the digests {path:?}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("invalid digests in {path:?}")]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("invalid digests in {path:?}: {text:?} is not \"sha256:\" and 64 hex digits")]
    Digest { path: PathBuf, text: String },
}

/// The content of the file: the digests, and those of the lock and runtime that they were made
/// from, so that stale ones are found without a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DigestFile {
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

/// The digests that this program was built with; `None` if it knows no such image.
pub fn committed(flavour: &str, architecture: &str) -> Option<Digests> {
    let name = format!("{flavour}.{architecture}.digest.json");
    let text = lock::embedded_file(&name)?;
    DigestFile::parse(text.as_bytes(), Path::new(&name))
        .ok()
        .map(DigestFile::into_digests)
}

impl Digests {
    /// Reads the digests of the lock at `lock_path` from `x.digest.json`, the file beside `x.json`.
    pub fn read(lock_path: &Path) -> Result<Self, Error> {
        let path = Self::path(lock_path);
        let bytes = read_bounded(&path, MAX_LOCK_BYTES).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        Ok(DigestFile::parse(&bytes, &path)?.into_digests())
    }

    /// The digests beside a lock, if they were made from exactly this lock and the embedded
    /// runtime.
    pub(crate) fn of(lock: &Lock, lock_path: &Path) -> Result<Option<Self>, Error> {
        let path = Self::path(lock_path);
        let bytes = match read_bounded(&path, MAX_LOCK_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        let record = DigestFile::parse(&bytes, &path)?;
        let digests = record.clone().into_digests();
        let fresh = DigestFile::new(&digests, lock).is_ok_and(|fresh| fresh == record);
        Ok(fresh.then_some(digests))
    }

    /// The path of the digests of the lock at `lock_path`.
    pub fn path(lock_path: &Path) -> PathBuf {
        lock_path.with_extension("digest.json")
    }

    /// Writes the digests beside their lock, atomically; returns the path.
    pub fn write(&self, lock: &Lock, lock_path: &Path) -> Result<PathBuf, Error> {
        let path = Self::path(lock_path);
        let failed = |source| Error::Write {
            path: path.clone(),
            source,
        };
        let text = DigestFile::new(self, lock)
            .and_then(|record| serde_json::to_string_pretty(&record))
            .map_err(|source| Error::Json {
                path: path.clone(),
                source,
            })?;
        write_atomic(&path, (text + "\n").as_bytes(), 0o644).map_err(failed)?;
        Ok(path)
    }
}

impl DigestFile {
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
            if !text
                .strip_prefix("sha256:")
                .is_some_and(sha256::is_hex_digest)
            {
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
    use std::fs;

    use super::*;
    use crate::architecture::Architecture;

    /// Needs no inputs and no build.
    #[test]
    fn committed_digests_belong_to_the_committed_lock_and_runtime() {
        for architecture in Architecture::ALL {
            let name = format!("base.{architecture}.digest.json");
            let text = lock::embedded_file(&name).expect(&name);
            let record = DigestFile::parse(text.as_bytes(), Path::new(&name)).expect(&name);
            let lock = Lock::embedded("base", architecture).expect("it is embedded");
            let how = "the lock or guest-image/runtime has changed: \
                run `cargo run -p guest-image -- digest --write` and commit guest-image/lock";
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
    fn digests_round_trip_and_stale_ones_are_ignored() {
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
