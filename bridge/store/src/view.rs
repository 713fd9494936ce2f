//! What a session is given: saved tools at its start, and later project files, and memories as files to look at. Only what
//! is new since the guest was last told, so that a spare guest that has waited costs next to nothing.

use std::collections::HashMap;

use super::files::{self, Kept};
use super::tools::Tool;
use super::write::{self, FileVersion};
use super::{Error, Origin, Store};

/// Of memories, what is shown as files: larger ones, and what goes beyond this in all, are there by `load_memory` only.
const LARGEST_SHOWN: u64 = 256 << 10;
const SHOWN: u64 = 8 << 20;
/// Notes of one kind.
const NOTES: usize = 5;

/// What a guest is told in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What code may call from the start.
    Tools,
    /// What lies below `/projects`.
    Files,
}

/// A file for the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    /// Below `/projects`.
    pub path: String,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// It is there to be looked at only.
    pub view: bool,
}

/// What a guest has to be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Saved tools, and what the owner of `user_tools.py` wrote, where that has changed.
    pub tools: Option<(Vec<Tool>, String)>,
    /// New and changed files.
    pub files: Vec<StateFile>,
    /// Files that are gone.
    pub gone: Vec<String>,
    /// There are files that are to be told another time.
    pub more: bool,
    /// What is to be said to the user.
    pub notes: Vec<String>,
}

/// What a guest has been told.
#[derive(Debug, Default)]
pub struct Seen {
    files: HashMap<String, FileVersion>,
    views: HashMap<String, FileVersion>,
    tools: Option<FileVersion>,
    /// Of `user_tools.py` as a file.
    tools_file: Option<FileVersion>,
    /// Said already.
    told: Vec<String>,
}

impl Store {
    /// What is new of these parts for a guest since `seen`, which is brought up to date. `hides` tells of text that must
    /// not reach a guest.
    pub fn update(&self, seen: &mut Seen, parts: &[Part], hides: &dyn Fn(&str) -> bool) -> Update {
        let mut update = Update::default();
        if parts.contains(&Part::Tools) {
            self.update_tools(seen, &mut update, hides);
        }
        if parts.contains(&Part::Files) {
            self.update_tools_file(seen, &mut update, hides);
            self.update_memories(seen, &mut update, hides);
            self.update_files(seen, &mut update, hides);
        } else {
            update.more = self.files.are_there();
        }
        update.notes.retain(|note| !seen.told.contains(note));
        seen.told.extend(update.notes.iter().cloned());
        update
    }

    fn update_tools(&self, seen: &mut Seen, update: &mut Update, hides: &dyn Fn(&str) -> bool) {
        if self.tools.stamp() == seen.tools {
            return;
        }
        let (mut contents, stamp) = self.tools.contents();
        update.notes.append(&mut contents.problems);
        seen.tools = stamp;
        if hides(&contents.text) {
            update.notes.push(
                "user_tools.py holds a secret of a server definition; its tools are left out"
                    .to_owned(),
            );
            contents = super::tools::Contents::default();
        }
        update.tools = Some((contents.tools, contents.own));
    }

    fn update_tools_file(
        &self,
        seen: &mut Seen,
        update: &mut Update,
        hides: &dyn Fn(&str) -> bool,
    ) {
        if self.tools.stamp() == seen.tools_file {
            return;
        }
        let path = "user_tools.py".to_owned();
        let (text, stamp) = self.tools.text();
        seen.tools_file = stamp;
        if text.is_empty() || hides(&text) {
            update.gone.push(path);
        } else {
            update.files.push(StateFile {
                path,
                bytes: text.into_bytes(),
                view: true,
            });
        }
    }

    fn update_memories(&self, seen: &mut Seen, update: &mut Update, hides: &dyn Fn(&str) -> bool) {
        let entries = match self.memory.entries() {
            Ok(entries) => entries,
            Err(error) => return update.notes.push(error.to_string()),
        };
        let mut views = HashMap::with_capacity(entries.len());
        let mut room = SHOWN;
        for (file, entry) in entries {
            let stamp = entry.stamp;
            let Some(left) = room
                .checked_sub(stamp.size)
                .filter(|_| stamp.size <= LARGEST_SHOWN)
            else {
                continue;
            };
            if seen.views.get(&file) != Some(&stamp) {
                let read = write::read(&self.memory.folder().join(&file), LARGEST_SHOWN);
                let Ok(Some((bytes, _))) = read else { continue };
                if hides(&String::from_utf8_lossy(&bytes)) {
                    continue;
                }
                let path = format!("memory/{file}");
                update.files.push(StateFile {
                    path,
                    bytes,
                    view: true,
                });
            }
            room = left;
            views.insert(file, stamp);
        }
        let gone = seen.views.keys().filter(|file| !views.contains_key(*file));
        update
            .gone
            .extend(gone.map(|file| format!("memory/{file}")));
        seen.views = views;
    }

    fn update_files(&self, seen: &mut Seen, update: &mut Update, hides: &dyn Fn(&str) -> bool) {
        let found = self.files.find();
        let mut left_out: Vec<String> = found
            .left_out
            .iter()
            .map(|(path, problem)| {
                format!("/projects/{} is left out: {problem}", path.escape_debug())
            })
            .collect();
        let mut room = self.limits.file_bytes;
        let mut known = HashMap::with_capacity(found.files.len());
        for (path, stamp) in found.files {
            let Some(left) = room
                .checked_sub(stamp.size)
                .filter(|_| known.len() < self.limits.files)
            else {
                left_out.push(format!("/projects/{path} is left out: there is no room for it (store_files, store_file_count)"));
                continue;
            };
            if seen.files.get(&path) == Some(&stamp) {
                known.insert(path, stamp);
                room = left;
                continue;
            }
            let Some((bytes, stamp)) = self.files.read(&path) else {
                continue;
            };
            if hides(&String::from_utf8_lossy(&bytes)) {
                left_out.push(format!(
                    "/projects/{path} is left out: it holds a secret of a server definition"
                ));
                continue;
            }
            known.insert(path.clone(), stamp);
            update.files.push(StateFile {
                path,
                bytes,
                view: false,
            });
            room = left;
        }
        let more = left_out.len().saturating_sub(NOTES);
        left_out.truncate(NOTES);
        if more > 0 {
            left_out.push(format!("{more} more files below /projects are left out"));
        }
        update.notes.append(&mut left_out);
        update.gone.extend(
            seen.files
                .keys()
                .filter(|path| !known.contains_key(*path))
                .cloned(),
        );
        seen.files = known;
    }

    /// Of files that a guest changed, those that are to be sent, and why others are not.
    pub fn choose(
        &self,
        changed: &[(String, u64)],
        deleted: &[String],
    ) -> (Vec<String>, Vec<String>) {
        self.files.choose(changed, deleted)
    }

    /// Keeps files that a guest changed; on the disk when this returns.
    pub fn keep(
        &self,
        files: &[(String, Vec<u8>)],
        deleted: &[String],
        seen: &mut Seen,
        origin: &Origin,
    ) -> Result<Kept, Error> {
        self.files.keep(files, deleted, &mut seen.files, origin)
    }

    /// What is said of a file that a guest may not leave.
    pub fn refuse(path: &str, problem: &str) -> String {
        files::not_kept(path, problem)
    }
}
