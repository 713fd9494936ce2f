//! The bearer token: from a file, or made for this process.

use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use sha2::{Digest as _, Sha256};

/// Characters of one that is made here: 160 random bits.
const MADE: usize = 32;
/// Fewer can be guessed.
const SHORTEST: usize = 16;
/// More is some other file.
const LONGEST: usize = 4096;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{} cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// It holds no token.
    #[error(
        "{} holds no token: one line of {SHORTEST} to {LONGEST} visible ASCII characters is wanted", path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
    },
    /// There is no randomness.
    #[error("no token can be made: {0}")]
    Random(#[from] std::io::Error),
}

/// What a client has to show. Only its hash is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

impl Token {
    /// A new one, and its text to be told.
    pub fn random() -> Result<(Self, String), Error> {
        let text = bridge_common::random::word(MADE)?;
        Ok((Self::of(&text), text))
    }

    /// That of a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |reason| Error::Read {
            path: path.to_owned(),
            reason,
        };
        let file = bridge_common::fs::open_regular(path).map_err(failed)?;
        if let Ok(metadata) = file.metadata()
            && metadata.permissions().mode() & 0o077 != 0
        {
            tracing::warn!(path = %path.display(), "others than its owner may read the file of the token");
        }
        let mut text = String::new();
        file.take(LONGEST as u64 + 2)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let text = text.trim_end_matches(['\r', '\n']);
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !plain || !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(Error::Content {
                path: path.to_owned(),
            });
        }
        Ok(Self::of(text))
    }

    fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Whether an `Authorization` header holds it. Hashes are compared: how long that takes tells nothing of the token.
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
    fn a_token_is_read_and_recognised() {
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
            "refused without waiting for a writer"
        );
        assert!(matches!(
            Token::read(&folder.path().join("none")),
            Err(Error::Read { .. })
        ));
    }

    #[test]
    fn one_that_is_made_differs_each_time_and_is_not_shown() {
        let (token, text) = Token::random().expect("random");
        assert_ne!(text, Token::random().expect("random").1);
        assert!(token.is_in(Some(
            &HeaderValue::from_str(&format!("Bearer {text}")).expect("plain")
        )));
        assert_eq!(format!("{token:?}"), "Token");
    }
}
