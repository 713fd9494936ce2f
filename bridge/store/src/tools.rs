//! Saved tools: Python functions and classes that exist in every session, all in one file that people can read and edit,
//! `user_tools.py`.
//!
//! Each saved tool is a section between two marks; everything else in the file belongs to its owner and stays byte for
//! byte. The host does not understand Python: a tool is text with a name, checked for what the file needs. The guest,
//! which took it from a running session, has compiled it.

mod book;
mod check;
mod marks;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::lock::Lock;
use super::write::FileVersion;
use super::{Error, Limits, Origin, Timestamp, write};
use book::{Book, Section};

/// The file of all saved tools.
const FILE: &str = "user_tools.py";
/// The folder of replaced and deleted tools.
const VERSIONS: &str = ".versions/tools";
/// The number of older versions of a tool.
const KEPT_VERSIONS: usize = 20;
/// The largest file, in bytes.
const FILE_LIMIT: u64 = 8 << 20;
const MODE: u32 = 0o600;

/// A tool as sessions receive it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tool {
    /// The name in Python.
    pub name: String,
    /// The source.
    pub source: String,
}

/// A tool as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavedTool {
    /// The name in Python.
    pub name: String,
    /// The `def` or `class` line.
    pub signature: String,
    /// When the tool was saved, as written in the file.
    pub saved: String,
    /// The session that saved the tool.
    pub session: String,
    /// The number of older versions.
    pub versions: usize,
    /// The size of the source in bytes.
    pub size: usize,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Contents {
    /// Saved tools, in the order of the file.
    pub(super) tools: Vec<Tool>,
    /// What the owner of the file wrote.
    pub(super) own: String,
    /// The text of the file.
    pub(super) text: String,
    /// What is wrong with the file.
    pub(super) problems: Vec<String>,
}

/// All saved tools.
#[derive(Debug)]
pub struct Tools {
    folder: PathBuf,
    limits: Limits,
    lock: Lock,
}

impl Tools {
    pub(super) fn new(folder: PathBuf, limits: Limits) -> Self {
        Self {
            lock: Lock::of(&folder),
            folder,
            limits,
        }
    }

    /// Saves a tool, replacing one of the same name; returns the number of this version.
    pub fn save(&self, name: &str, source: &str, origin: &Origin) -> Result<usize, Error> {
        let source = check::source(name, source)?;
        let _locked = self.lock.take()?;
        let mut book = self.book()?;
        let section = Section {
            name: name.to_owned(),
            saved: Timestamp::now().to_string(),
            session: origin.session.clone(),
            source,
        };
        let before = book.get(name).cloned();
        if before
            .as_ref()
            .is_some_and(|before| before.source == section.source)
        {
            return Ok(self.versions(name).len() + 1);
        }
        if before.is_none() && book.sections().count() >= self.limits.tools {
            return Err(Error::TooMany {
                kind: "saved tools",
                limit: self.limits.tools,
                setting: "store_tools",
            });
        }
        if let Some(before) = before {
            self.keep_version(&before)?;
        }
        book.put(section);
        self.write(&book)?;
        Ok(self.versions(name).len() + 1)
    }

    /// Deletes a tool, whose last version is kept; false if it does not exist.
    pub fn delete(&self, name: &str) -> Result<bool, Error> {
        let _locked = self.lock.take()?;
        let mut book = self.book()?;
        let Some(section) = book.remove(name) else {
            return Ok(false);
        };
        self.keep_version(&section)?;
        self.write(&book)?;
        Ok(true)
    }

    /// All saved tools, in the order of the file, and what is wrong with it.
    pub fn list(&self) -> Result<(Vec<SavedTool>, Vec<String>), Error> {
        let book = self.book()?;
        let listed = book.sections().map(|section| SavedTool {
            name: section.name.clone(),
            signature: section.signature(),
            saved: section.saved.clone(),
            session: section.session.clone(),
            versions: self.versions(&section.name).len(),
            size: section.source.len(),
        });
        Ok((listed.collect(), book.problems().to_vec()))
    }

    /// The source of a tool.
    pub fn source(&self, name: &str) -> Result<Option<String>, Error> {
        let book = self.book()?;
        Ok(book.get(name).map(|section| section.source.clone()))
    }

    /// The file as sessions need it, and its version; empty if it does not exist. An unreadable file is a problem, not an
    /// error: a session starts without tools rather than not at all.
    pub(super) fn contents(&self) -> (Contents, Option<FileVersion>) {
        match self.read() {
            Ok((text, version)) => {
                let book = Book::parse(&text);
                let tools = book.sections().map(|section| Tool {
                    name: section.name.clone(),
                    source: section.source.clone(),
                });
                let contents = Contents {
                    tools: tools.collect(),
                    own: book.own(),
                    problems: book.problems().to_vec(),
                    text,
                };
                (contents, version)
            }
            Err(error) => {
                let contents = Contents {
                    problems: vec![error.to_string()],
                    ..Contents::default()
                };
                (contents, self.version())
            }
        }
    }

    /// The text of the file, and its version; empty if it cannot be read.
    pub(super) fn text(&self) -> (String, Option<FileVersion>) {
        self.read()
            .unwrap_or_else(|_| (String::new(), self.version()))
    }

    /// The version of the file, if it exists.
    pub(super) fn version(&self) -> Option<FileVersion> {
        fs::metadata(self.folder.join(FILE))
            .ok()
            .map(|facts| FileVersion::of(&facts))
    }

    fn book(&self) -> Result<Book, Error> {
        Ok(Book::parse(&self.read()?.0))
    }

    fn read(&self) -> Result<(String, Option<FileVersion>), Error> {
        let read = write::read(&self.folder.join(FILE), FILE_LIMIT)
            .map_err(Error::io("user_tools.py could not be read"))?;
        let Some((bytes, version)) = read else {
            return Ok((String::new(), None));
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok((text, Some(version))),
            Err(error) => Err(Error::BadToolFile {
                reason: format!(
                    "is not UTF-8 (byte {})",
                    error.utf8_error().valid_up_to() + 1
                ),
            }),
        }
    }

    fn write(&self, book: &Book) -> Result<(), Error> {
        let text = book.to_string();
        if text.len() as u64 > FILE_LIMIT {
            return Err(Error::Full {
                what: "the tool".to_owned(),
                kind: "saved tools",
                limit: FILE_LIMIT,
                setting: "fixed",
            });
        }
        // A link to a file elsewhere is kept.
        let path = self.folder.join(FILE);
        let path = fs::canonicalize(&path).unwrap_or(path);
        write::replace(&path, text.as_bytes(), MODE)
            .map_err(Error::io("user_tools.py could not be written"))
    }

    /// Keeps the version that is about to be replaced.
    fn keep_version(&self, section: &Section) -> Result<(), Error> {
        let failed = || Error::io("the older version of the tool could not be kept");
        let folder = self.version_folder(&section.name);
        fs::create_dir_all(&folder).map_err(failed())?;
        let versions = self.versions(&section.name);
        let number = versions.last().map_or(1, |(number, _)| number + 1);
        let path = folder.join(format!("{number}.py"));
        write::replace(&path, section.to_string().as_bytes(), MODE).map_err(failed())?;
        for (_, path) in versions.iter().rev().skip(KEPT_VERSIONS - 1) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Older versions by their numbers.
    fn versions(&self, name: &str) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(self.version_folder(name))
            .into_iter()
            .flatten()
            .flatten();
        let mut found: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| Some((number_of(&entry.path())?, entry.path())))
            .collect();
        found.sort_unstable();
        found
    }

    /// Names of tools are identifiers, so they are valid names of folders.
    fn version_folder(&self, name: &str) -> PathBuf {
        self.folder.join(VERSIONS).join(name)
    }
}

fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".py")?.parse().ok()
}
