//! SHA-256 sums as the rest of the crate writes them: lower-case hex.

use std::fmt::Write as _;
use std::io;

use sha2::{Digest as _, Sha256};

/// The sum of `bytes` in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.hex()
}

/// The sum of `bytes` as OCI writes it.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

/// Whether `text` is a sum in lower-case hex.
pub(crate) fn is_hex(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Sums bytes as they come.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn hex(self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0.finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(b""), empty);
        assert!(is_hex(empty));
        assert!(!is_hex(&empty.to_uppercase()));
        assert!(!is_hex(&empty[1..]));
    }
}
