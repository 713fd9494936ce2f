//! What is known of the files without reading them again: their sizes and heads, as long as their versions are the same.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::{READ_LIMIT, head};
use crate::write::{self, FileVersion};
use crate::{Error, Timestamp};

/// A memory without its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Info {
    /// The key.
    pub key: String,
    /// The metadata.
    pub metadata: Value,
    /// When it was created, in seconds since 1970.
    pub created_at: Value,
    /// When it was last changed, in seconds since 1970.
    pub updated_at: Value,
    /// The provenance: `session`, `run`, `time`.
    pub provenance: Value,
    /// The size of the file in bytes.
    pub size: u64,
}

/// All memories.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listing {
    /// Memories in the order of their keys.
    pub memories: Vec<Info>,
    /// Names of files that could not be read and were set aside.
    pub set_aside: Vec<String>,
}

/// A file.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) version: FileVersion,
    pub(crate) modified: Timestamp,
    /// The content: `None` if it has not been read, an error if it is not a memory.
    info: Option<Result<Info, String>>,
}

/// The files of the folder.
#[derive(Debug, Default)]
pub(super) struct Index {
    folder: Option<FileVersion>,
    entries: BTreeMap<String, Entry>,
    set_aside: Vec<String>,
    total: u64,
}

impl Index {
    /// Brings names and sizes up to date. If no name has changed, sizes are assumed to be the same: a file is replaced to
    /// be changed, except by hand.
    pub(super) fn refresh_sizes(&mut self, folder: &Path) -> Result<(), Error> {
        let now = stamp_of(folder).map_err(Error::io("memories could not be listed"))?;
        if now.is_some() && now == self.folder {
            return Ok(());
        }
        self.scan(folder)
    }

    /// Brings everything up to date and reads what is new.
    pub(super) fn refresh(&mut self, folder: &Path) -> Result<(), Error> {
        self.scan(folder)?;
        self.read_heads(folder)
    }

    /// The file that holds a key, whatever its name.
    pub(super) fn file_of(&mut self, folder: &Path, key: &str) -> Result<Option<String>, Error> {
        self.refresh_sizes(folder)?;
        self.read_heads(folder)?;
        let holds = |entry: &Entry| matches!(&entry.info, Some(Ok(info)) if info.key.trim() == key);
        let found = self.entries.iter().find(|(_, entry)| holds(entry));
        Ok(found.map(|(file, _)| file.clone()))
    }

    fn read_heads(&mut self, folder: &Path) -> Result<(), Error> {
        for (file, entry) in &mut self.entries {
            if entry.info.is_some() {
                continue;
            }
            let info = match write::read(&folder.join(file), READ_LIMIT) {
                Ok(Some((bytes, _))) => head(&bytes, file, entry.modified),
                // The file was deleted meanwhile.
                Ok(None) => continue,
                Err(error) => return Err(Error::io("a memory could not be read")(error)),
            };
            entry.info = Some(info);
        }
        Ok(())
    }

    fn scan(&mut self, folder: &Path) -> Result<(), Error> {
        let failed = || Error::io("memories could not be listed");
        let before = stamp_of(folder).map_err(failed())?;
        let mut known = std::mem::take(&mut self.entries);
        self.set_aside.clear();
        self.total = 0;
        self.folder = before;
        if before.is_none() {
            return Ok(());
        }
        for entry in fs::read_dir(folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if write::sweep(folder, &name) {
                continue;
            }
            if name.contains(".json.corrupt-") {
                self.set_aside.push(name);
                continue;
            }
            // A link is followed: the folder belongs to the user.
            let facts = match entry.metadata() {
                Ok(facts) if facts.is_symlink() => fs::metadata(entry.path()),
                other => other,
            };
            let Ok(facts) = facts else { continue };
            if !facts.is_file() || !is_memory(&name) {
                continue;
            }
            let version = FileVersion::of(&facts);
            let modified = version.modified();
            let info = known
                .remove(&name)
                .filter(|known| known.version == version)
                .and_then(|known| known.info);
            self.total += version.size;
            self.entries.insert(
                name,
                Entry {
                    version,
                    modified,
                    info,
                },
            );
        }
        self.set_aside.sort();
        Ok(())
    }

    /// Notes that a file was just written under the lock: names have not changed since the index was refreshed.
    pub(super) fn note_written(&mut self, folder: &Path, file: &str) {
        let facts = fs::metadata(folder.join(file));
        let (Ok(facts), Ok(now)) = (facts, stamp_of(folder)) else {
            self.folder = None;
            return;
        };
        let version = FileVersion::of(&facts);
        let modified = facts
            .modified()
            .map_or(Timestamp::from_epoch(0.0), Timestamp::from);
        let entry = Entry {
            version,
            modified,
            info: None,
        };
        self.total += version.size;
        if let Some(before) = self.entries.insert(file.to_owned(), entry) {
            self.total -= before.version.size;
        }
        self.folder = now;
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn size_of(&self, file: &str) -> u64 {
        self.entries.get(file).map_or(0, |entry| entry.version.size)
    }

    pub(super) fn entries(&self) -> Vec<(String, Entry)> {
        let entries = self.entries.iter();
        entries
            .map(|(file, entry)| (file.clone(), entry.clone()))
            .collect()
    }

    /// Files that are not memories.
    pub(super) fn bad(&self) -> Vec<String> {
        let bad = self
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry.info, Some(Err(_))));
        bad.map(|(file, _)| file.clone()).collect()
    }

    pub(super) fn listing(&self) -> Listing {
        let infos = self.entries.values().filter_map(|entry| match &entry.info {
            Some(Ok(info)) => Some(info.clone()),
            _ => None,
        });
        let mut memories: Vec<Info> = infos.collect();
        memories.sort_by(|one, other| one.key.cmp(&other.key));
        Listing {
            memories,
            set_aside: self.set_aside.clone(),
        }
    }
}

fn is_memory(name: &str) -> bool {
    !name.starts_with('.')
        && Path::new(name)
            .extension()
            .is_some_and(|ending| ending == "json")
}

/// The version of the folder, if it exists.
fn stamp_of(folder: &Path) -> io::Result<Option<FileVersion>> {
    match fs::metadata(folder) {
        Ok(facts) => Ok(Some(FileVersion::of(&facts))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
