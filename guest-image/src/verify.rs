//! Checks an image archive: every blob is hashed and every reference is followed before an engine
//! gets to see it.
//!
//! An archive has two tables of contents, `index.json` and `manifest.json`, and engines differ in
//! which one they read. Both must lead to the image that the digests name, and nothing else may be
//! in the archive, so that no engine can find another image in it.

mod contents;
mod export;
mod json;

use std::fs::File;
use std::io::{self, BufReader, Seek as _};
use std::path::{Path, PathBuf};

use bridge_common::fs::open_regular;
use contents::{Contents, Layers};
pub use export::exported_layers;

use crate::architecture::Architecture;
use crate::digests::Digests;
use crate::progress::Progress;
use crate::rootfs::PYTHON;

/// An open image archive. What is read after [`Archive::verify`] is the file that was verified,
/// whatever its path leads to by then.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    file: File,
    bytes: u64,
}

/// What was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Number of blobs in the archive.
    pub blobs: usize,
    /// Size of all files in the archive.
    pub bytes: u64,
    /// The architecture of the image's Python, if layers were inspected.
    pub python: Option<Architecture>,
}

/// Why an archive is not that of the image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the archive is not a tar archive, or is damaged")]
    NotTar,
    #[error("the archive has no {0}")]
    Missing(String),
    #[error("the archive has {0}, which does not belong in it")]
    Foreign(String),
    #[error("invalid {name} in the archive")]
    Json {
        name: String,
        source: serde_json::Error,
    },
    #[error(
        "invalid {name} in the archive: it has names that differ only in case or are not ASCII"
    )]
    AmbiguousJson { name: String },
    #[error("{name} in the archive is damaged: its digest is {found}")]
    Blob { name: String, found: String },
    #[error("the archive has the wrong {what}: expected {expected}, found {found}")]
    Mismatch {
        what: &'static str,
        expected: String,
        found: String,
    },
}

impl Error {
    /// Whether the content is wrong; otherwise it could not be read.
    pub fn is_mismatch(&self) -> bool {
        !matches!(self, Self::Read { .. })
    }
}

impl Archive {
    /// Opens the archive, which must be a regular file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let file = open_regular(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
        })
    }

    /// The size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks that this is an archive of the image with these digests, complete and unchanged.
    pub fn verify(
        &mut self,
        expected: &Digests,
        progress: &dyn Progress,
    ) -> Result<Verified, Error> {
        self.check(expected, Layers::Hash, progress)
    }

    /// Like [`Archive::verify`], and checks that the layers have Python for the right architecture
    /// and no files with special permissions, as an image built by this crate does.
    pub fn inspect(
        &mut self,
        expected: &Digests,
        progress: &dyn Progress,
    ) -> Result<Verified, Error> {
        let verified = self.check(expected, Layers::Inspect, progress)?;
        let python = verified
            .python
            .ok_or_else(|| Error::Missing(PYTHON.to_owned()))?;
        expect_equal(
            "architecture of Python",
            &expected.architecture,
            python.name(),
        )?;
        Ok(verified)
    }

    /// The open file, at its start.
    pub fn into_file(mut self) -> Result<File, Error> {
        match self.file.rewind() {
            Ok(()) => Ok(self.file),
            Err(source) => Err(Error::Read {
                path: self.path,
                source,
            }),
        }
    }

    fn check(
        &mut self,
        expected: &Digests,
        layers: Layers,
        progress: &dyn Progress,
    ) -> Result<Verified, Error> {
        let report = |done: u64| progress.report("verifying the archive", done, Some(self.bytes));
        let reader = BufReader::with_capacity(1 << 20, &self.file);
        let read_error = |source: io::Error| match source.raw_os_error() {
            Some(_) => Error::Read {
                path: self.path.clone(),
                source,
            },
            None => Error::NotTar,
        };
        (&self.file).rewind().map_err(read_error)?;
        let contents =
            Contents::read(reader, expected, layers, &report).map_err(|error| match error {
                contents::Error::Io(error) => read_error(error),
                contents::Error::Verify(error) => error,
            })?;
        contents.check(expected)?;
        Ok(Verified {
            blobs: contents.blobs(),
            bytes: contents.bytes,
            python: contents.python,
        })
    }
}

fn expect_equal(what: &'static str, expected: &str, found: &str) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Mismatch {
        what,
        expected: expected.to_owned(),
        found: found.chars().take(500).collect(),
    })
}

#[cfg(test)]
mod tests;
