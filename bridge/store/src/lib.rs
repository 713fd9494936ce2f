//! What outlives a session: memories, saved tools and project files, kept on the host in files that people can read.
//!
//! Everything lies below one folder, `user_tools`. Every write is whole or not there, and on the disk before it is
//! acknowledged; several bridges may use the folder at once. All that comes from a guest is hostile text: names, sizes
//! and numbers of everything are bounded here. Blocking; callers that must not block use a thread for it.

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

/// Who writes: noted with what is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The session.
    pub session: String,
    /// Number of the run in it.
    pub run: u64,
}

impl Origin {
    /// As kept in a memory.
    fn to_json(&self, now: Timestamp) -> Value {
        json!({"session": self.session, "run": self.run, "time": now.to_string()})
    }
}

/// Why something was not kept or could not be read. Messages name no folder of the host: user code reads them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key of nothing but blanks.
    #[error("the key is empty")]
    EmptyKey,
    /// A key that is a text of its own.
    #[error("the key has {length} characters; at most {limit} are allowed")]
    LongKey {
        /// Characters.
        length: usize,
        /// Allowed.
        limit: usize,
    },
    /// Two keys whose names cannot be told apart.
    #[error("memory {key:?} would be kept where another one is")]
    Collision {
        /// The key.
        key: String,
    },
    /// One thing is too large.
    #[error("{what} has {size} bytes; at most {limit} are kept ({setting})")]
    TooLarge {
        /// What.
        what: String,
        /// Its bytes.
        size: u64,
        /// Allowed.
        limit: u64,
        /// The setting that says so.
        setting: &'static str,
    },
    /// All together are too large.
    #[error(
        "there is no room for {what}: {kind} may have {limit} bytes together ({setting}); delete some"
    )]
    Full {
        /// What.
        what: String,
        /// `memories`, `saved tools`, `project files`.
        kind: &'static str,
        /// Allowed.
        limit: u64,
        /// The setting that says so.
        setting: &'static str,
    },
    /// There are too many.
    #[error("there are {limit} {kind} already, the most there may be ({setting}); delete some")]
    TooMany {
        /// `memories`, `saved tools`, `project files`.
        kind: &'static str,
        /// Allowed.
        limit: usize,
        /// The setting that says so.
        setting: &'static str,
    },
    /// It changed since it was read.
    #[error("memory {key:?} was changed by somebody else meanwhile")]
    Conflict {
        /// The key.
        key: String,
        /// As it is now.
        current: Option<Box<Loaded>>,
    },
    /// A file that is no memory; it was set aside.
    #[error("memory {key:?} could not be read ({reason}); its file was set aside as {file}")]
    SetAside {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
        /// Its new name.
        file: String,
    },
    /// A text that no tool can have.
    #[error("the tool cannot be saved: {reason}")]
    BadTool {
        /// Why.
        reason: String,
    },
    /// `user_tools.py` cannot be added to.
    #[error("user_tools.py {reason}; nothing was changed")]
    BadToolFile {
        /// What is wrong with it.
        reason: String,
    },
    /// Another process holds the lock and does not let go.
    #[error("another program is writing and does not come to an end")]
    Busy,
    /// The disk or its permissions.
    #[error("{act}: {source}")]
    Io {
        /// What was tried.
        act: &'static str,
        /// What came of it.
        source: io::Error,
    },
}

impl Error {
    fn io(act: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { act, source }
    }

    /// In one word, for programs.
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

/// The state below one folder.
#[derive(Debug)]
pub struct Store {
    limits: Limits,
    memory: Memory,
    tools: Tools,
    files: Files,
}

impl Store {
    /// What the settings say, for a bridge that was started in `cwd`.
    pub fn of(settings: &Settings, cwd: &Path) -> Self {
        let root = project::root(&settings.state_dir, &settings.project, cwd);
        Self::new(&root, settings.store)
    }

    /// Of the state folder `root`. Nothing is made before something is written.
    pub fn new(root: &Path, limits: Limits) -> Self {
        let folder = root.join("user_tools");
        Self {
            limits,
            memory: Memory::new(folder.join("memory"), limits),
            tools: Tools::new(folder.clone(), limits),
            files: Files::new(folder, limits),
        }
    }

    /// How much may be kept.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Values by key.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Functions that are there in every session.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Where it all lies.
    pub fn folder(&self) -> PathBuf {
        self.files.folder().to_owned()
    }
}

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
