//! An incomplete download, kept beside the file as `.part`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Error;
use crate::sha256::Hasher;

/// The start of a file, locked until dropped so that only one process writes to it.
pub(super) struct PartialFile {
    path: PathBuf,
    output: File,
    /// Number of bytes so far.
    pub(super) have: u64,
    /// Number of bytes of the complete file.
    pub(super) size: u64,
}

impl PartialFile {
    /// Waits for the lock. A part that is longer than the complete file is emptied.
    pub(super) fn open(path: PathBuf, size: u64) -> Result<Self, Error> {
        let opened = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path);
        let locked = opened.and_then(|output| output.lock().map(|()| output));
        let length =
            locked.and_then(|output| output.metadata().map(|metadata| (metadata.len(), output)));
        let (have, output) = length.map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
        let mut part = Self {
            path,
            output,
            have,
            size,
        };
        if have > size {
            part.empty()?;
        }
        part.output
            .seek(SeekFrom::End(0))
            .map_err(|source| part.failed(source))?;
        Ok(part)
    }

    pub(super) fn empty(&mut self) -> Result<(), Error> {
        self.have = 0;
        self.output
            .set_len(0)
            .and_then(|()| self.output.rewind())
            .map_err(|source| self.failed(source))
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.have += bytes.len() as u64;
        if self.have > self.size {
            return Err(Error::TooLong(self.size));
        }
        self.output
            .write_all(bytes)
            .map_err(|source| self.failed(source))
    }

    /// Checks that the file is complete, by its SHA-256.
    pub(super) fn check(&mut self, sha256: &str) -> Result<(), Error> {
        let mut hasher = Hasher::default();
        self.output
            .rewind()
            .and_then(|()| io::copy(&mut self.output, &mut hasher))
            .map_err(|source| self.failed(source))?;
        let found = hasher.hex_digest();
        if found == sha256 {
            return Ok(());
        }
        Err(Error::Sha256 { found })
    }

    pub(super) fn discard(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(|source| self.failed(source))
    }

    /// Moves the complete file to its final path.
    pub(super) fn keep_as(self, file: &Path) -> Result<(), Error> {
        self.output
            .sync_all()
            .and_then(|()| fs::rename(&self.path, file))
            .map_err(|source| self.failed(source))
    }

    pub(super) fn interrupted(&self, source: io::Error) -> Error {
        Error::Interrupted {
            bytes: self.have,
            source,
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write {
            path: self.path.clone(),
            source,
        }
    }
}
