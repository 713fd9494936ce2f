//! SHA-256 digests: `hex_digest` as 64 lower-case digits, `digest` with OCI's prefix `sha256:`.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex_digest(bytes))
}

/// Whether `text` has the form of [`hex_digest`].
pub(crate) fn is_hex_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Hashes bytes as they are written.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn hex_digest(self) -> String {
        hex::encode(self.0.finalize())
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hashes bytes as they are read.
pub(crate) struct HashingReader<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> HashingReader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            hasher: Hasher::default(),
        }
    }

    /// Reads what is left; the digest covers everything from the start.
    pub(crate) fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self.inner, &mut self.hasher)?;
        Ok(self.hasher.hex_digest())
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digest_of_nothing_is_that_of_the_standard() {
        assert_eq!(hex_digest(b""), EMPTY);
        assert!(is_hex_digest(EMPTY));
        assert!(!is_hex_digest(&EMPTY.to_uppercase()));
        assert!(!is_hex_digest(&EMPTY[1..]));
    }

    #[test]
    fn reader_hashes_what_was_read_and_what_is_left() {
        let mut reader = HashingReader::new(&b"image"[..]);
        reader.read_exact(&mut [0; 2]).expect("in memory");
        assert_eq!(reader.finish().expect("in memory"), hex_digest(b"image"));
    }
}
