//! Reads packages into trees: Debian's `.deb` and Python's wheels. Everything in them is hostile until proven bounded.

mod ar;
mod deb;
mod wheel;

use std::io::{self, Read};

pub(crate) use deb::unpack_deb;
pub(crate) use wheel::{SITE_PACKAGES, unpack_wheel};

use crate::tree;

/// What one package may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Entries in one package.
    pub(crate) entries: usize,
    /// Bytes of one file.
    pub(crate) file_bytes: u64,
    /// Bytes of the whole, headers included, after decompression.
    pub(crate) total_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 50_000,
            file_bytes: 256 << 20,
            total_bytes: 1 << 30,
        }
    }
}

/// Why a package cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no `ar` archive, or a broken one.
    #[error("not a .deb archive: {0}")]
    Ar(&'static str),
    /// Its parts are not those of a package.
    #[error("not a Debian package: {0}")]
    Deb(&'static str),
    /// It is no wheel.
    #[error("not a wheel: {0}")]
    Wheel(&'static str),
    /// The data inside cannot be read.
    #[error("the package's data is broken")]
    Data(#[source] io::Error),
    /// The zip archive cannot be read.
    #[error("the wheel's zip archive is broken")]
    Zip(#[source] zip::result::ZipError),
    /// More than it may hold.
    #[error("the package holds more than {limit} {what}")]
    TooMuch {
        /// The bound.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
    /// An entry that is neither file, folder nor link.
    #[error("{path:?} is a device, pipe or other special file")]
    Special {
        /// The entry.
        path: String,
    },
    /// An entry that has no place in an image.
    #[error(transparent)]
    Entry(#[from] tree::Error),
}

impl From<tree::BadPath> for Error {
    fn from(error: tree::BadPath) -> Self {
        Self::Entry(error.into())
    }
}

/// A reader that fails, rather than ends, once more than its share was read.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Bounded<R> {
    fn new(inner: R, limit: u64) -> Self {
        Self { inner, left: limit }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other("it unpacks to more than it may"))?;
        Ok(count)
    }
}

/// Reads one file whose size was announced; neither more nor less is taken.
fn read_exactly(reader: impl Read, size: u64, limits: Limits) -> Result<Vec<u8>, Error> {
    if size > limits.file_bytes {
        return Err(Error::TooMuch {
            limit: limits.file_bytes,
            what: "bytes in one file",
        });
    }
    // The announced size is not believed before the bytes are there.
    let mut data = Vec::with_capacity(usize::try_from(size.min(1 << 20)).unwrap_or(0));
    let read = reader
        .take(size + 1)
        .read_to_end(&mut data)
        .map_err(Error::Data)?;
    if read as u64 != size {
        return Err(Error::Data(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(data)
}
