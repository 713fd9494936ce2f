//! What became of a run, as facts. `bridge-render` is the only crate that puts them into words.

use std::time::Duration;

use super::display::Displays;
use super::ending::{Ending, State, Status};
use super::notes::Note;
use bridge_broker::Summary;

/// What a run has come to, so far or in the end.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// Which run this is about.
    pub identity: RunIdentity,
    /// How it ended, or that it goes on.
    pub ending: Ending,
    /// What it wrote, showed and left behind.
    pub output: RunOutput,
    /// Facts to be told before all else.
    pub notes: Vec<Note>,
    /// What became of its tool calls.
    pub calls: Summary,
}

impl RunOutcome {
    /// How the run ended, in one word.
    pub fn status(&self) -> Status {
        self.ending.status()
    }

    /// What became of the session's variables.
    pub fn state(&self) -> State {
        if self.notes.contains(&Note::SandboxEndedAfterRun) {
            State::Lost
        } else {
            self.ending.state()
        }
    }
}

/// Which run an outcome is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunIdentity {
    /// Name of the session.
    pub session: String,
    /// Number of the cell in its sandbox; 0 where nothing was run.
    pub cell: u64,
    /// Servers that the session has loaded.
    pub servers: Vec<String>,
    /// Name of the run, where it was left running.
    pub run: Option<String>,
    /// Time limit that applied.
    pub timeout: Duration,
    /// Time since the run was asked for.
    pub elapsed: Duration,
}

/// What a run wrote, showed and left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOutput {
    /// Standard output of the run.
    pub stdout: Captured,
    /// Standard error of the run.
    pub stderr: Captured,
    /// Pictures and documents that it showed.
    pub displays: Displays,
    /// Files in `/workspace/out` that are new or were changed.
    pub files: Vec<OutFile>,
}

/// What the session's task knows of a run that has ended; the run itself knows the rest.
#[derive(Debug, Clone)]
pub struct RunEnd {
    /// The same as [`RunIdentity::cell`].
    pub cell: u64,
    /// The same as [`RunIdentity::servers`].
    pub servers: Vec<String>,
    /// How the run ended.
    pub ending: Ending,
    /// The same as [`RunOutput::files`].
    pub files: Vec<OutFile>,
    /// The same as [`RunOutcome::notes`].
    pub notes: Vec<Note>,
    /// The same as [`RunOutcome::calls`].
    pub calls: Summary,
}

impl From<Ending> for RunEnd {
    /// An end with nothing to show.
    fn from(ending: Ending) -> Self {
        Self {
            cell: 0,
            servers: Vec::new(),
            ending,
            files: Vec::new(),
            notes: Vec::new(),
            calls: Summary::default(),
        }
    }
}

/// A file in `/workspace/out`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutFile {
    /// Path below that folder.
    pub path: String,
    /// Bytes, when the last run ended.
    pub size: u64,
    /// The last run wrote it.
    pub is_new: bool,
}

/// One stream, as far as the host has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// The first bytes, at most the limit.
    pub bytes: Vec<u8>,
    /// How many more bytes there were.
    pub dropped: u64,
    /// Line ends among those.
    pub dropped_lines: u64,
    /// The last of those, a few KiB at most.
    pub tail: Vec<u8>,
    /// How many bytes, of all, the guest does not keep for later calls either.
    pub lost: u64,
}

impl Captured {
    /// Bytes that were written.
    pub fn total(&self) -> u64 {
        self.dropped.saturating_add(self.bytes.len() as u64)
    }
}
