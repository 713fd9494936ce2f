//! A client's file on the disk: read within bounds, and replaced only where that is safe.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use bridge_common::fs::{read_bounded, write_atomic_if};

use super::EditError;

/// Claude Code keeps the history of every project beside its servers.
const MAX_BYTES: u64 = 64 << 20;
/// A new file may come to hold secrets of other servers.
const NEW_MODE: u32 = 0o600;
const NEW_FOLDER_MODE: u32 = 0o700;
const STORE: &str = "/nix/store";
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of a file, and where it really lies.
#[derive(Debug)]
pub(super) struct FileText {
    /// Behind all links.
    real: PathBuf,
    /// As on the disk; `None` if the file does not exist.
    content: Option<String>,
}

impl FileText {
    /// Reads `path`; a missing file is an empty text.
    pub(super) fn read(path: &Path) -> Result<Self, EditError> {
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    return Err(EditError::DanglingLink);
                }
                return Ok(Self {
                    real: path.to_owned(),
                    content: None,
                });
            }
            Err(error) => return Err(error.into()),
        };
        let bytes = read_bounded(&real, MAX_BYTES)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| EditError::Syntax("it is not UTF-8".to_owned()))?;
        Ok(Self {
            real,
            content: Some(text),
        })
    }

    /// The text, without a byte order mark.
    pub(super) fn text(&self) -> &str {
        let text = self.content.as_deref().unwrap_or_default();
        text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
    }

    /// Writes `text` in place of the file's.
    pub(super) fn replace(&self, text: &str) -> Result<(), EditError> {
        let mode = match fs::metadata(&self.real) {
            Ok(metadata) => {
                if self.real.starts_with(STORE) {
                    return Err(EditError::InStore);
                }
                if metadata.uid() != rustix::process::geteuid().as_raw() {
                    return Err(EditError::OtherOwner);
                }
                if metadata.mode() & 0o200 == 0 {
                    return Err(EditError::ReadOnly);
                }
                metadata.mode() & 0o7777
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = self.real.parent().unwrap_or(Path::new("/"));
                fs::DirBuilder::new()
                    .recursive(true)
                    .mode(NEW_FOLDER_MODE)
                    .create(folder)?;
                NEW_MODE
            }
            Err(error) => return Err(error.into()),
        };
        let mark = self
            .content
            .as_ref()
            .is_some_and(|content| content.starts_with(BYTE_ORDER_MARK));
        let mark = if mark { "\u{feff}" } else { "" };
        let text = format!("{mark}{text}");
        let is_unchanged =
            || Ok(Self::read(&self.real).is_ok_and(|now| now.content == self.content));
        if write_atomic_if(&self.real, text.as_bytes(), mode, is_unchanged)? {
            Ok(())
        } else {
            Err(EditError::Changed)
        }
    }
}
