//! `execution_done`: how an execution ended, and what it leaves.

use serde::Deserialize;

use super::ChangedFiles;
use super::lenient::{Number, Text};

/// The content of an `execution_done` frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionDone {
    /// Number of the execution that ended.
    pub id: u64,
    /// How the execution ended.
    pub status: DoneStatus,
    /// Exit status of a `SystemExit`.
    pub exit_code: Option<i64>,
    /// Exception that ended the execution.
    pub error: Option<DoneError>,
    /// `repr` of a bare last expression.
    pub result: Option<String>,
    /// The user's line that was interrupted.
    pub place: Option<String>,
    /// Files that lie in `/workspace/out`.
    pub files: Vec<DoneFile>,
    /// How many more new files there are.
    pub more_files: u64,
    /// Files below `/projects` that differ from what the host has.
    pub projects: Option<ChangedFiles>,
}

/// A file in `/workspace/out`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneFile {
    /// Path below `/workspace/out`.
    pub path: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// The file is new or was changed in this run.
    pub is_new: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DoneStatus {
    /// The code ran to its end.
    Success,
    /// The code raised an exception.
    Error,
    /// The interrupt ended the code.
    Interrupted,
}

/// What user code raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneError {
    /// Name of the exception class.
    pub kind: String,
    /// `str` of the exception.
    pub message: String,
    /// Traceback of user frames only.
    pub traceback: String,
}

#[derive(Deserialize)]
struct RawFile<'a> {
    #[serde(borrow)]
    path: Text<'a>,
    size: u64,
    #[serde(default)]
    new: bool,
}

#[derive(Deserialize)]
pub(super) struct RawDone<'a> {
    id: u64,
    status: DoneStatus,
    exit_code: Option<Number>,
    #[serde(borrow)]
    error: Option<RawError<'a>>,
    #[serde(borrow)]
    result: Option<RawResult<'a>>,
    #[serde(borrow, rename = "where")]
    place: Option<Text<'a>>,
    #[serde(borrow, default)]
    files: Vec<RawFile<'a>>,
    #[serde(default)]
    more_files: u64,
    projects: Option<ChangedFiles>,
}

#[derive(Deserialize)]
struct RawError<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
    #[serde(borrow, default)]
    traceback: Text<'a>,
}

#[derive(Deserialize)]
struct RawResult<'a> {
    #[serde(borrow)]
    repr: Text<'a>,
}

pub(super) fn done(raw: RawDone<'_>) -> ExecutionDone {
    ExecutionDone {
        id: raw.id,
        status: raw.status,
        exit_code: raw.exit_code.map(|number| number.0),
        error: raw.error.map(|error| DoneError {
            kind: error.kind.0.into_owned(),
            message: error.message.0.into_owned(),
            traceback: error.traceback.0.into_owned(),
        }),
        result: raw.result.map(|result| result.repr.0.into_owned()),
        place: raw.place.map(|place| place.0.into_owned()),
        files: raw
            .files
            .into_iter()
            .map(|file| DoneFile {
                path: file.path.0.into_owned(),
                size: file.size,
                is_new: file.new,
            })
            .collect(),
        more_files: raw.more_files,
        projects: raw.projects,
    }
}
