//! Memories: values by key, each in a readable JSON file, compatible with those of the predecessor.
//!
//! Numbers of any size and the order of keys survive, because a value is passed through as text. The name of a file
//! follows from its key ([`name`]), and a file counts for the key that is written in it. An unreadable file is set
//! aside, never overwritten.

mod index;
mod name;
mod record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::Value;

pub use index::{Info, Listing};
pub use record::Loaded;

pub(super) use index::Entry;

use super::lock::Lock;
use super::{Error, Limits, Origin, Timestamp, write};
use bridge_common::json;
use index::Index;
use name::Key;
use record::{Head, Parsed};

/// The largest file that is read: people may write larger memories by hand than code may save.
const READ_LIMIT: u64 = 64 << 20;
/// How long an unreadable file is read again: the predecessor may be writing it.
const SETTLE: Duration = Duration::from_millis(200);
const LOOKS: u32 = 5;
/// Only the owner may read memories.
const MODE: u32 = 0o600;

/// A change of a memory.
#[derive(Debug, Default)]
pub struct Change {
    /// The new value.
    pub value: Value,
    /// The new metadata; `None` keeps the old ones.
    pub metadata: Option<Value>,
    /// The condition for the change.
    pub expected: Expected,
}

/// The version that must exist for a change to be made.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Any version, or none.
    #[default]
    Any,
    /// No memory of that key may exist.
    Nothing,
    /// Exactly this version.
    Version(String),
}

/// A change that was made.
#[derive(Debug, PartialEq)]
pub struct Saved {
    /// The new version.
    pub version: String,
    /// Whether the memory is new.
    pub new: bool,
    /// The name of the file.
    pub file: String,
    /// The text of the file.
    pub text: String,
}

/// All memories.
#[derive(Debug)]
pub struct Memory {
    folder: PathBuf,
    limits: Limits,
    lock: Lock,
    index: Mutex<Index>,
}

impl Memory {
    pub(super) fn new(folder: PathBuf, limits: Limits) -> Self {
        Self {
            lock: Lock::of(&folder),
            folder,
            limits,
            index: Mutex::default(),
        }
    }

    /// The memory of a key, if it exists.
    pub fn load(&self, key: &str) -> Result<Option<Loaded>, Error> {
        let key = Key::parse(key)?;
        match self.find(&key)? {
            Found::Record { loaded, .. } => Ok(Some(*loaded)),
            Found::Nothing { .. } => Ok(None),
        }
    }

    /// Saves a memory; it is on the disk when this returns.
    pub fn save(&self, key: &str, change: &Change, origin: &Origin) -> Result<Saved, Error> {
        let key = Key::parse(key)?;
        let metadata_size = change.metadata.as_ref().map_or(0, json::size_of);
        let size = (json::size_of(&change.value) + metadata_size) as u64;
        if size > self.limits.value_bytes {
            return Err(Error::TooLarge {
                what: format!("memory {:?}", key.shown()),
                size,
                limit: self.limits.value_bytes,
                setting: "store_value",
            });
        }
        let _locked = self.lock.take()?;
        let found = self.find(&key)?;
        let (file, before) = match found {
            Found::Record { file, loaded } => (file, Some(loaded)),
            Found::Nothing { file } => (file, None),
        };
        let as_expected = match (&change.expected, &before) {
            (Expected::Any, _) | (Expected::Nothing, None) => true,
            (Expected::Version(expected), Some(loaded)) => *expected == loaded.version,
            _ => false,
        };
        if !as_expected {
            return Err(Error::Conflict {
                key: key.shown(),
                current: before,
            });
        }
        let new = before.is_none();
        let text = record::compose(
            key.as_str(),
            change,
            before.as_deref(),
            origin,
            Timestamp::now(),
        );
        let mut index = self.index();
        index.refresh_sizes(&self.folder)?;
        let others = index.total() - index.size_of(&file);
        if others + text.len() as u64 > self.limits.memory_bytes {
            return Err(Error::Full {
                what: format!("memory {:?}", key.shown()),
                kind: "memories",
                limit: self.limits.memory_bytes,
                setting: "store_memory",
            });
        }
        if new && index.len() >= self.limits.memories {
            return Err(Error::TooMany {
                kind: "memories",
                limit: self.limits.memories,
                setting: "store_memory_count",
            });
        }
        write::replace(&self.folder.join(&file), text.as_bytes(), MODE)
            .map_err(Error::io("the memory could not be written"))?;
        index.note_written(&self.folder, &file);
        Ok(Saved {
            version: record::version(text.as_bytes()),
            new,
            file,
            text,
        })
    }

    /// Deletes a memory; false if it does not exist.
    pub fn delete(&self, key: &str) -> Result<Option<String>, Error> {
        let key = Key::parse(key)?;
        let _locked = self.lock.take()?;
        let Found::Record { file, .. } = self.find(&key)? else {
            return Ok(None);
        };
        let removed = write::remove(&self.folder.join(&file))
            .map_err(Error::io("the memory could not be deleted"))?;
        Ok(removed.then_some(file))
    }

    /// All memories by key, without their values, and the files that were set aside.
    pub fn list(&self) -> Result<Listing, Error> {
        let (listing, bad) = self.peek()?;
        if bad.is_empty() {
            return Ok(listing);
        }
        for file in bad {
            // A file that still cannot be read is set aside; one that now can be read is listed.
            let key = file.trim_end_matches(".json").to_owned();
            match self.look(&file, &key) {
                Ok(_) | Err(Error::SetAside { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.peek().map(|(listing, _)| listing)
    }

    /// Like [`Memory::list`], but unreadable files stay where they are; their names are returned second.
    pub fn peek(&self) -> Result<(Listing, Vec<String>), Error> {
        let mut index = self.index();
        index.refresh(&self.folder)?;
        Ok((index.listing(), index.bad()))
    }

    /// The files, for the read-only view of a guest.
    pub(super) fn entries(&self) -> Result<Vec<(String, Entry)>, Error> {
        let mut index = self.index();
        index.refresh_sizes(&self.folder)?;
        Ok(index.entries())
    }

    /// The folder of the files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a key, or the one that it would get.
    fn find(&self, key: &Key) -> Result<Found, Error> {
        let mut free = None;
        for file in key.files() {
            match self.look(&file, key.as_str())? {
                Some(loaded) if loaded.is_of(key.as_str()) => {
                    return Ok(Found::Record {
                        file,
                        loaded: Box::new(loaded),
                    });
                }
                // The file belongs to another key.
                Some(_) => {}
                None => free = free.or(key.may_take(&file).then_some(file)),
            }
        }
        // A file with another name is listed by its key, so it has to be found by it.
        let named_otherwise = self.index().file_of(&self.folder, key.as_str())?;
        if let Some(file) = named_otherwise
            && let Some(loaded) = self.look(&file, key.as_str())?
            && loaded.is_of(key.as_str())
        {
            return Ok(Found::Record {
                file,
                loaded: Box::new(loaded),
            });
        }
        free.map(|file| Found::Nothing { file })
            .ok_or_else(|| Error::Collision { key: key.shown() })
    }

    /// Reads a file. A file that is not a memory is set aside.
    fn look(&self, file: &str, key: &str) -> Result<Option<Loaded>, Error> {
        let path = self.folder.join(file);
        let mut looks = 0;
        loop {
            let read =
                write::read(&path, READ_LIMIT).map_err(Error::io("a memory could not be read"))?;
            let Some((bytes, version)) = read else {
                return Ok(None);
            };
            let reason = match Parsed::read(&bytes) {
                Ok(parsed) => {
                    return Ok(Some(parsed.into_loaded(file, &bytes, version.modified())));
                }
                Err(reason) => reason,
            };
            if looks == LOOKS || !is_young(&path) {
                return self.set_aside(file, key, reason);
            }
            looks += 1;
            std::thread::sleep(SETTLE / LOOKS);
        }
    }

    fn set_aside(&self, file: &str, key: &str, reason: String) -> Result<Option<Loaded>, Error> {
        let from = self.folder.join(file);
        let now = Timestamp::now().seconds();
        for number in 0..100 {
            let name = if number == 0 {
                format!("{file}.corrupt-{now}")
            } else {
                format!("{file}.corrupt-{now}-{number}")
            };
            let to = self.folder.join(&name);
            match move_aside(&from, &to) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    return Err(Error::io("an unreadable memory could not be set aside")(
                        error,
                    ));
                }
            }
            tracing::warn!(
                memory.file = name,
                reason,
                "an unreadable memory was set aside"
            );
            let _ = write::sync_folder(&self.folder);
            let key: String = key.chars().take(100).collect();
            return Err(Error::SetAside {
                key,
                reason,
                file: name,
            });
        }
        Err(Error::Busy)
    }
}

/// Renames without replacing an existing file. On file systems without hard links, a check before the rename has to do.
fn move_aside(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
            ) =>
        {
            Err(error)
        }
        Err(_) if to.exists() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

/// The result of a lookup.
enum Found {
    Record { file: String, loaded: Box<Loaded> },
    Nothing { file: String },
}

/// It was written just now.
fn is_young(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|facts| facts.modified());
    modified
        .is_ok_and(|time| SystemTime::now().duration_since(time).unwrap_or_default() < SETTLE * 5)
}

/// What a list shows of a file; `Err` says why it is not a memory.
fn head(bytes: &[u8], file: &str, modified: Timestamp) -> Result<Info, String> {
    Head::read(bytes).map(|head| head.into_info(file, bytes.len() as u64, modified))
}
