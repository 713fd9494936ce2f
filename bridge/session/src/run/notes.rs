//! Facts that an answer tells before all else.

use std::time::Duration;

use super::ending::{Death, Stop};

/// A fact that an answer tells before all else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The sandbox is a new one, because the previous one was lost.
    FreshSession(Loss),
    /// A server that was asked for is not up; why, in the words of whoever started it.
    ServerFailed(String),
    /// So many more servers are not up.
    MoreServersFailed(usize),
    /// So many new files in `/workspace/out` are not listed.
    MoreFiles(u64),
    /// Something about what is kept below `/projects`.
    Projects(ProjectsNote),
    /// The sandbox ended right after the run, before its project files were kept.
    SandboxEndedAfterRun,
    /// The run waits for this one, which was left running in the same session.
    WaitsBehind(String),
}

/// A fact about what is kept below `/projects`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProjectsNote {
    /// In the words of the store.
    Store(String),
    /// So many more files are not kept.
    MoreNotKept(usize),
    /// What the run left is not kept.
    NotKept(NotKept),
    /// Not all that is kept fits into the sandbox.
    DoesNotFit,
    /// What is kept could not be read, by a fault of the bridge.
    NotRead,
}

/// Why nothing of what a run left is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotKept {
    /// The sandbox did not send it in time.
    NotSent,
    /// The bridge is shutting down.
    ShuttingDown,
    /// A fault of the bridge.
    Fault,
    /// The store says why.
    Store(String),
}

/// Why the variables of earlier calls are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The sandbox was killed because it did not react when a call was stopped.
    Stopped(Stop),
    /// The sandbox died by itself.
    Died(Death),
    /// The client asked for a fresh one.
    Reset,
    /// The sandbox was closed because it was not used for this long.
    Idle(Duration),
    /// The bridge's own fault.
    Bug,
}
