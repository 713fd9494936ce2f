//! What a session receives: saved tools at its start, and later project files and read-only views of memories. Only what
//! is new since the last update is sent, so that a spare guest that has waited costs next to nothing.

use std::collections::HashMap;

use super::files::{self, Kept};
use super::tools::Tool;
use super::write::{self, FileVersion};
use super::{Error, Origin, Store};

/// The largest memory that is shown as a file, and all of them together; the rest is available by `load_memory` only.
const LARGEST_SHOWN: u64 = 256 << 10;
const SHOWN: u64 = 8 << 20;
/// The most notes of one kind.
const NOTES: usize = 5;

/// What is sent to a guest together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Saved tools, which code may call from the start.
    Tools,
    /// The files below `/projects`.
    Files,
}

/// A file for the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    /// The path below `/projects`.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// Whether it is a read-only view.
    pub view: bool,
}

/// What is new for a guest.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Saved tools, and what the owner of `user_tools.py` wrote, if that has changed.
    pub tools: Option<(Vec<Tool>, String)>,
    /// New and changed files.
    pub files: Vec<StateFile>,
    /// Files that no longer exist.
    pub gone: Vec<String>,
    /// Whether there are files that will be sent later.
    pub more: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// What a guest already has.
#[derive(Debug, Default)]
pub struct Seen {
    files: HashMap<String, FileVersion>,
    views: HashMap<String, FileVersion>,
    tools: Option<FileVersion>,
    /// The version of `user_tools.py` as a file.
    tools_file: Option<FileVersion>,
    /// Notes that were already made.
    told: Vec<String>,
}

impl Store {
    /// What is new in these parts since `seen`, which is brought up to date. `hides` recognises text that must not reach
    /// a guest.
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
        if self.tools.version() == seen.tools {
            return;
        }
        let (mut contents, version) = self.tools.contents();
        update.notes.append(&mut contents.problems);
        seen.tools = version;
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
        if self.tools.version() == seen.tools_file {
            return;
        }
        let path = "user_tools.py".to_owned();
        let (text, version) = self.tools.text();
        seen.tools_file = version;
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
            let version = entry.version;
            let Some(left) = room
                .checked_sub(version.size)
                .filter(|_| version.size <= LARGEST_SHOWN)
            else {
                continue;
            };
            if seen.views.get(&file) != Some(&version) {
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
            views.insert(file, version);
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
        for (path, version) in found.files {
            let Some(left) = room
                .checked_sub(version.size)
                .filter(|_| known.len() < self.limits.files)
            else {
                left_out.push(format!(
                    "/projects/{path} is left out: no room for it (store_files, store_file_count)"
                ));
                continue;
            };
            if seen.files.get(&path) == Some(&version) {
                known.insert(path, version);
                room = left;
                continue;
            }
            let Some((bytes, version)) = self.files.read(&path) else {
                continue;
            };
            if hides(&String::from_utf8_lossy(&bytes)) {
                left_out.push(format!(
                    "/projects/{path} is left out: it holds a secret of a server definition"
                ));
                continue;
            }
            known.insert(path.clone(), version);
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

    /// Chooses the files that a guest is to send, and says why others are not taken.
    pub fn choose(
        &self,
        changed: &[(String, u64)],
        deleted: &[String],
    ) -> (Vec<String>, Vec<String>) {
        self.files.choose(changed, deleted)
    }

    /// Writes files that a guest changed; they are on the disk when this returns.
    pub fn keep(
        &self,
        files: &[(String, Vec<u8>)],
        deleted: &[String],
        seen: &mut Seen,
        origin: &Origin,
    ) -> Result<Kept, Error> {
        self.files.keep(files, deleted, &mut seen.files, origin)
    }

    /// The note about a file that a guest may not write.
    pub fn refuse(path: &str, problem: &str) -> String {
        files::not_kept(path, problem)
    }
}
