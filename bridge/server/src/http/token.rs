//! The bearer token that clients must send: read from a file, or made for this process.

use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use sha2::{Digest as _, Sha256};

/// Characters of a token that is made here: 160 random bits.
const RANDOM_CHARACTERS: usize = 32;
/// The fewest characters of a token; a shorter one could be guessed.
const MIN_CHARACTERS: usize = 16;
/// The most characters of a token; a longer file holds something else.
const MAX_CHARACTERS: usize = 4096;

/// Why a token cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the token file {}: {reason}", path.display())]
    Read {
        /// Path of the token file.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// The content of the file is not a token.
    #[error(
        "invalid token in {}: write one line of {MIN_CHARACTERS} to {MAX_CHARACTERS} visible ASCII \
         characters",
        path.display()
    )]
    Content {
        /// Path of the token file.
        path: PathBuf,
    },
    /// The operating system gives no random bytes.
    #[error("cannot make a token: {0}")]
    Random(#[from] std::io::Error),
}

/// The token that clients must send. Only its hash is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

impl Token {
    /// Makes a random token; returns it with its text, for the user to see.
    pub fn random() -> Result<(Self, String), Error> {
        let text = bridge_common::random::word(RANDOM_CHARACTERS)?;
        Ok((Self::of(&text), text))
    }

    /// Reads the token in a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |reason| Error::Read {
            path: path.to_owned(),
            reason,
        };
        let file = bridge_common::fs::open_regular(path).map_err(failed)?;
        if let Ok(metadata) = file.metadata()
            && metadata.permissions().mode() & 0o077 != 0
        {
            tracing::warn!(
                path = %path.display(),
                "other users can read the token file; run `chmod 600` on it"
            );
        }
        let mut text = String::new();
        file.take(MAX_CHARACTERS as u64 + 2)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let text = text.trim_end_matches(['\r', '\n']);
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !plain || !(MIN_CHARACTERS..=MAX_CHARACTERS).contains(&text.len()) {
            return Err(Error::Content {
                path: path.to_owned(),
            });
        }
        Ok(Self::of(text))
    }

    fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Whether an `Authorization` header holds the token. It compares hashes, so the time that
    /// takes reveals nothing about the token.
    pub(super) fn is_in(&self, header: Option<&HeaderValue>) -> bool {
        let given = header.and_then(|header| header.to_str().ok());
        let given = given.and_then(|given| given.split_once(' '));
        given.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && Self::of(token.trim()).0 == self.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_from_a_file_and_recognised_in_headers() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("token");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            Token::read(&path)
        };
        let token = read("0123456789abcdef\n").expect("a token");
        let shown =
            |header: &str| token.is_in(Some(&HeaderValue::from_str(header).expect("plain")));
        assert!(shown("Bearer 0123456789abcdef"));
        assert!(shown("bearer  0123456789abcdef"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "Bearer 0123456789abcdee",
        ] {
            assert!(!shown(wrong), "{wrong}");
        }
        assert!(!token.is_in(None));
        for bad in [
            "",
            "\n",
            "short",
            "0123456789 abcdef",
            "0123456789abcdef\nmore",
            &"x".repeat(5000),
        ] {
            assert!(matches!(read(bad), Err(Error::Content { .. })), "{bad:.20}");
        }
        assert!(matches!(
            Token::read(folder.path()),
            Err(Error::Read { .. })
        ));
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a FIFO");
        assert!(
            matches!(Token::read(&fifo), Err(Error::Read { .. })),
            "rejected without waiting for a writer"
        );
        assert!(matches!(
            Token::read(&folder.path().join("none")),
            Err(Error::Read { .. })
        ));
    }

    #[test]
    fn random_tokens_differ_and_are_not_shown_in_debug_output() {
        let (token, text) = Token::random().expect("random");
        assert_ne!(text, Token::random().expect("random").1);
        assert!(token.is_in(Some(
            &HeaderValue::from_str(&format!("Bearer {text}")).expect("plain")
        )));
        assert_eq!(format!("{token:?}"), "Token");
    }
}
