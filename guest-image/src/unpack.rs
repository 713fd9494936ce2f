//! Unpacks Debian packages and Python wheels to trees. All that they say is untrusted.

mod ar;
mod deb;
mod wheel;

use std::io::{self, Read};

pub(crate) use deb::unpack_deb;
pub(crate) use wheel::{SITE_PACKAGES, unpack_wheel};

use crate::tree;

/// How large one package may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackLimits {
    pub(crate) entries: usize,
    pub(crate) file_bytes: u64,
    /// Of the decompressed package, with headers.
    pub(crate) total_bytes: u64,
}

impl Default for UnpackLimits {
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
    #[error("not an ar archive: {0}")]
    Ar(&'static str),
    #[error("not a Debian package: {0}")]
    Deb(&'static str),
    #[error("not a wheel: {0}")]
    Wheel(&'static str),
    #[error("the data of the package is damaged")]
    Data(#[source] io::Error),
    #[error("the zip archive of the wheel is damaged")]
    Zip(#[source] zip::result::ZipError),
    #[error("the package has more than {limit} {what}")]
    TooMuch { limit: u64, what: &'static str },
    #[error("{path:?} is a device, pipe or other special file")]
    Special { path: String },
    #[error(transparent)]
    Entry(#[from] tree::Error),
}

impl From<tree::BadPath> for Error {
    fn from(error: tree::BadPath) -> Self {
        Self::Entry(error.into())
    }
}

/// A reader that fails, instead of ending, when more than its limit is read.
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
            .ok_or_else(|| io::Error::other("it is larger than the limit when decompressed"))?;
        Ok(count)
    }
}

/// Reads one file of exactly the announced size.
fn read_exactly(reader: impl Read, size: u64, limits: UnpackLimits) -> Result<Vec<u8>, Error> {
    if size > limits.file_bytes {
        return Err(Error::TooMuch {
            limit: limits.file_bytes,
            what: "bytes in one file",
        });
    }
    // No more memory is reserved for an announced size than 1 MiB.
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
