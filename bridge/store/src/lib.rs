//! What outlives a session: memories, saved tools and project files, stored on the host in files that people can read.
//!
//! Entry points: [`Store::of`] opens the store that the settings name; [`Store::memory`], [`Store::tools`] and
//! [`Store::update`] read it, [`Store::keep`] writes project files.
//!
//! Invariants: everything is below one folder, `user_tools`; every write is complete or does not happen, and is on the
//! disk before it is acknowledged; several bridges may use the folder at once. Everything that comes from a guest is
//! hostile: names, sizes and numbers are bounded here.
//!
//! This crate knows neither sessions nor frames nor the model. Its functions block; callers that must not block use a
//! thread.

mod files;
mod journal;
mod lock;
mod memory;
mod path;
mod project;
mod timestamp;
mod tools;
mod view;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use files::Kept;
pub use memory::{Change, Expected, Info, Listing, Loaded, Memory, Saved};
pub use timestamp::Timestamp;
pub use tools::{SavedTool, Tool, Tools};
pub use view::{Part, Seen, StateFile, Update};

use files::Files;

use bridge_settings::Settings;
pub use bridge_settings::StoreLimits as Limits;

/// Who writes; recorded with what is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The name of the session.
    pub session: String,
    /// The number of the run in that session.
    pub run: u64,
}

impl Origin {
    /// The form in which a memory records it.
    fn to_json(&self, now: Timestamp) -> Value {
        json!({"session": self.session, "run": self.run, "time": now.to_string()})
    }
}

/// Why something was not stored or could not be read. Messages do not name folders of the host: user code reads them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key has only blanks.
    #[error("the key is empty")]
    EmptyKey,
    /// The key is too long.
    #[error("the key has {length} characters; at most {limit} are allowed")]
    LongKey {
        /// The length in characters.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The file names of two keys cannot be told apart.
    #[error("memory {key:?} cannot be saved: its file belongs to another memory; use another key")]
    Collision {
        /// The key of the memory.
        key: String,
    },
    /// A single item is too large.
    #[error("{what} has {size} bytes; at most {limit} are kept ({setting})")]
    TooLarge {
        /// The item, for messages.
        what: String,
        /// The size in bytes.
        size: u64,
        /// The limit.
        limit: u64,
        /// The setting with the limit.
        setting: &'static str,
    },
    /// All items together are too large.
    #[error("no room for {what}: {kind} may have {limit} bytes together ({setting}); delete some")]
    Full {
        /// The item, for messages.
        what: String,
        /// `memories`, `saved tools`, `project files`.
        kind: &'static str,
        /// The limit.
        limit: u64,
        /// The setting with the limit.
        setting: &'static str,
    },
    /// There are too many items.
    #[error("there are {limit} {kind} already, the most there may be ({setting}); delete some")]
    TooMany {
        /// `memories`, `saved tools`, `project files`.
        kind: &'static str,
        /// The limit.
        limit: usize,
        /// The setting with the limit.
        setting: &'static str,
    },
    /// The memory changed since it was read.
    #[error("memory {key:?} was changed by another session meanwhile; load it again")]
    Conflict {
        /// The key of the memory.
        key: String,
        /// The current memory.
        current: Option<Box<Loaded>>,
    },
    /// The file is not a memory; it was set aside.
    #[error("memory {key:?} could not be read ({reason}); its file was set aside as {file}")]
    SetAside {
        /// The key of the memory.
        key: String,
        /// What is wrong with it.
        reason: String,
        /// The new name of the file.
        file: String,
    },
    /// The source or name cannot be a tool.
    #[error("the tool cannot be saved: {reason}")]
    BadTool {
        /// What is wrong with it.
        reason: String,
    },
    /// `user_tools.py` cannot be added to.
    #[error("user_tools.py {reason}; nothing was changed")]
    BadToolFile {
        /// What is wrong with it.
        reason: String,
    },
    /// Another process holds the lock for too long.
    #[error("another program has been writing for too long; try again when it has finished")]
    Busy,
    /// The disk or its permissions.
    #[error("{act}: {source}")]
    Io {
        /// What failed.
        act: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    fn io(act: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { act, source }
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::EmptyKey | Self::LongKey { .. } | Self::Collision { .. } => "key",
            Self::TooLarge { .. } => "too_large",
            Self::Full { .. } | Self::TooMany { .. } => "quota",
            Self::Conflict { .. } => "conflict",
            Self::SetAside { .. } => "set_aside",
            Self::BadTool { .. } => "bad_tool",
            Self::BadToolFile { .. } => "bad_tool_file",
            Self::Busy => "busy",
            Self::Io { .. } => "io",
        }
    }
}

/// The state of one project or user, below one folder.
#[derive(Debug)]
pub struct Store {
    limits: Limits,
    memory: Memory,
    tools: Tools,
    files: Files,
}

impl Store {
    /// Opens the store that the settings name, for a bridge that was started in `cwd`.
    pub fn of(settings: &Settings, cwd: &Path) -> Self {
        let root = project::root(&settings.state_dir, &settings.project, cwd);
        Self::new(&root, settings.store)
    }

    /// Opens the store in the state folder `root`. Nothing is created before something is written.
    pub fn new(root: &Path, limits: Limits) -> Self {
        let folder = root.join("user_tools");
        Self {
            limits,
            memory: Memory::new(folder.join("memory"), limits),
            tools: Tools::new(folder.clone(), limits),
            files: Files::new(folder, limits),
        }
    }

    /// The limits of the store.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Memories: values by key.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Saved tools: functions that exist in every session.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The folder of the store.
    pub fn folder(&self) -> PathBuf {
        self.files.folder().to_owned()
    }
}

#[cfg(test)]
mod tests;
