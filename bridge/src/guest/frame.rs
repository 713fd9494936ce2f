//! The frames in both directions.
//!
//! Parsing takes two steps, the type first and then the fields that this type has: a frame of an unknown type may hold
//! anything at all. (A tagged enum would also trip over serde's buffering of arbitrary-precision numbers.)

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Error, GuestReport};

mod state;

pub use state::{ChangedFiles, FilePiece, State};

/// Which stream a piece of output belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

/// A frame from the guest.
#[derive(Debug, Clone, PartialEq)]
pub enum FromGuest<'a> {
    /// The guest is up.
    Ready(Ready),
    /// Bytes that user code wrote.
    Output(StreamKind, Cow<'a, [u8]>),
    /// What the guest dropped of stdout and stderr because it was over the limit.
    Dropped(Box<[Dropped; 2]>),
    /// Something to be shown beside the output.
    Display {
        /// Its type, as the guest says.
        mime: Cow<'a, str>,
        /// Its content.
        content: Vec<u8>,
    },
    /// A piece of a file that was asked for.
    File {
        /// Number of the question.
        call: u64,
        /// Size of the whole file, and the piece; none where there is no such file.
        piece: Option<(u64, Vec<u8>)>,
    },
    /// An execution came to its end.
    Done(Box<Done>),
    /// The guest is about to end.
    Exit {
        /// Its exit status.
        code: i64,
        /// The kernel killed a process for memory, where the guest can tell.
        out_of_memory: Option<bool>,
    },
    /// It wants something of the host.
    Request {
        /// The execution that it thinks it is in.
        id: Option<u64>,
        /// Its number; the answer repeats it.
        call: u64,
        /// What it wants.
        method: String,
        /// The details; `None` where they are no JSON that can be held (lone surrogates, nesting without end), which is
        /// user code's mistake and no reason to end the guest.
        params: Option<Value>,
    },
    /// It does not want an answer any more.
    Cancel {
        /// Number of the request.
        call: u64,
    },
    /// A piece of a file that was asked for.
    ProjectFile(FilePiece<'a>),
    /// All that was asked for has been sent.
    Collected {
        /// Number of the request.
        id: u64,
    },
    /// A type that this bridge does not know; to be ignored.
    Unknown,
}

/// What was dropped of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dropped {
    /// How many bytes.
    pub bytes: u64,
    /// Line ends among them.
    pub lines: u64,
    /// Bytes of the run's whole stream that the guest does not keep either.
    pub lost: u64,
    /// The last bytes; empty where the guest keeps none.
    pub tail: Vec<u8>,
}

/// `ready`: the first frame of a guest.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Ready {
    /// Version of the protocol it speaks.
    pub protocol: u32,
    /// Python's version.
    pub python: String,
    /// What it says of its own confinement.
    pub report: GuestReport,
    /// How long its start took.
    #[serde(default)]
    pub timings: ReadyTimings,
}

/// How long the guest's start took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct ReadyTimings {
    /// Since the guest's process began.
    pub start_ms: Option<f64>,
}

/// `execution_done`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The execution's number.
    pub id: u64,
    /// How it ended.
    pub status: DoneStatus,
    /// Of `SystemExit`.
    pub exit_code: Option<i64>,
    /// What was raised.
    pub error: Option<DoneError>,
    /// `repr` of a bare last expression.
    pub result: Option<String>,
    /// The user's line that was interrupted.
    pub place: Option<String>,
    /// What lies in `/workspace/out`.
    pub files: Vec<DoneFile>,
    /// How many files more.
    pub more_files: u64,
    /// Files below `/projects` that differ from what the host has.
    pub projects: Option<ChangedFiles>,
}

/// A file in `/workspace/out`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneFile {
    /// Below that folder.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// It is new or was changed in this run.
    pub is_new: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DoneStatus {
    /// The code ran to its end.
    Success,
    /// It raised.
    Error,
    /// It raised `KeyboardInterrupt`.
    Interrupted,
}

/// What user code raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneError {
    /// Name of the class.
    pub kind: String,
    /// `str` of the exception.
    pub message: String,
    /// User frames only.
    pub traceback: String,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
}

#[derive(Deserialize)]
struct RawOutput<'a> {
    #[serde(borrow)]
    data: Option<Text<'a>>,
    #[serde(borrow)]
    base64: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct RawDisplay<'a> {
    #[serde(borrow)]
    mime: Text<'a>,
}

#[derive(Deserialize)]
struct RawPiece<'a> {
    call: u64,
    #[serde(default)]
    size: u64,
    #[serde(borrow)]
    base64: Option<Text<'a>>,
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
struct RawDropped<'a> {
    #[serde(default)]
    stdout: u64,
    #[serde(default)]
    stderr: u64,
    #[serde(default)]
    lines: [u64; 2],
    #[serde(default)]
    lost: [u64; 2],
    #[serde(borrow, default)]
    tails: [Text<'a>; 2],
}

#[derive(Deserialize)]
struct RawRequest<'a> {
    id: Option<u64>,
    call: u64,
    #[serde(borrow)]
    method: Text<'a>,
}

#[derive(Deserialize)]
struct RawParams {
    #[serde(default)]
    params: Value,
}

#[derive(Deserialize)]
struct RawCancel {
    call: u64,
}

#[derive(Deserialize)]
struct RawCollected {
    id: u64,
}

#[derive(Deserialize)]
struct RawExit {
    code: Number,
    out_of_memory: Option<bool>,
}

#[derive(Deserialize)]
struct RawDone<'a> {
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

impl<'a> FromGuest<'a> {
    /// Parses one line, without its newline.
    pub fn parse(line: &'a [u8]) -> Result<Self, Error> {
        let head: Head<'_> = fields(line)?;
        match head.kind.0.as_ref() {
            "stdout" => Ok(Self::Output(StreamKind::Stdout, content(line)?)),
            "stderr" => Ok(Self::Output(StreamKind::Stderr, content(line)?)),
            "display" => {
                let RawDisplay { mime } = fields(line)?;
                Ok(Self::Display {
                    mime: mime.0,
                    content: content(line)?.into_owned(),
                })
            }
            "file" => {
                let raw: RawPiece<'_> = fields(line)?;
                let bytes = raw
                    .base64
                    .map(|Text(text)| STANDARD.decode(text.as_bytes()));
                let bytes = bytes.transpose().map_err(Error::Base64)?;
                Ok(Self::File {
                    call: raw.call,
                    piece: bytes.map(|bytes| (raw.size, bytes)),
                })
            }
            "execution_done" => Ok(Self::Done(Box::new(done(fields(line)?)))),
            "dropped" => dropped(&fields(line)?),
            "rpc_request" => {
                let raw: RawRequest<'_> = fields(line)?;
                let params = fields(line).map(|raw: RawParams| raw.params);
                Ok(Self::Request {
                    id: raw.id,
                    call: raw.call,
                    method: raw.method.0.into_owned(),
                    params: params.ok(),
                })
            }
            "rpc_cancel" => {
                let RawCancel { call } = fields(line)?;
                Ok(Self::Cancel { call })
            }
            "project_file" => Ok(Self::ProjectFile(state::piece(line)?)),
            "collected" => {
                let RawCollected { id } = fields(line)?;
                Ok(Self::Collected { id })
            }
            "ready" => Ok(Self::Ready(fields(line)?)),
            "exit" => {
                let raw: RawExit = fields(line)?;
                Ok(Self::Exit {
                    code: raw.code.0,
                    out_of_memory: raw.out_of_memory,
                })
            }
            _ => Ok(Self::Unknown),
        }
    }
}

fn fields<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(line).map_err(Error::Malformed)
}

fn content(line: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    let raw: RawOutput<'_> = fields(line)?;
    match (raw.data, raw.base64) {
        (Some(Text(Cow::Borrowed(text))), None) => Ok(Cow::Borrowed(text.as_bytes())),
        (Some(Text(Cow::Owned(text))), None) => Ok(Cow::Owned(text.into_bytes())),
        (None, Some(Text(text))) => Ok(Cow::Owned(
            STANDARD.decode(text.as_bytes()).map_err(Error::Base64)?,
        )),
        _ => Err(Error::OutputData),
    }
}

fn dropped(raw: &RawDropped<'_>) -> Result<FromGuest<'static>, Error> {
    let one = |index: usize, bytes| {
        let tail = STANDARD.decode(raw.tails[index].0.as_bytes());
        Ok(Dropped {
            bytes,
            lines: raw.lines[index],
            lost: raw.lost[index],
            tail: tail.map_err(Error::Base64)?,
        })
    };
    let both = [one(0, raw.stdout)?, one(1, raw.stderr)?];
    Ok(FromGuest::Dropped(Box::new(both)))
}

fn done(raw: RawDone<'_>) -> Done {
    Done {
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

/// Text as Python has it: lone surrogates, which no Rust string can hold, become replacement characters instead of
/// costing the user the session.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Text<'de>, E> {
                Ok(Text(String::from_utf8_lossy(bytes)))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(
                    String::from_utf8_lossy(bytes).into_owned(),
                )))
            }
        }

        deserializer.deserialize_bytes(TextVisitor)
    }
}

/// An exit status of any size: `sys.exit(10**30)` must not be a protocol error.
struct Number(i64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        Ok(Self(number.as_i64().unwrap_or(255)))
    }
}

/// A frame to the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ToGuest<'a> {
    /// Run this.
    Execute {
        /// Number of the execution; the answer repeats it.
        id: u64,
        /// Number of the cell, as tracebacks show it.
        cell: u64,
        /// Python source.
        code: &'a str,
        /// What it may use.
        limits: ExecuteLimits,
        /// Servers whose proxies are to be made, or made anew.
        #[serde(skip_serializing_if = "<[Value]>::is_empty")]
        servers: &'a [Value],
        /// Names of all servers that could be loaded.
        known: &'a [String],
        /// Servers that were asked for and are not up.
        #[serde(skip_serializing_if = "<[FailedServer]>::is_empty")]
        failed: &'a [FailedServer],
    },
    /// Send a piece of a file in `/workspace/out`, also while code runs.
    #[serde(rename = "read_file")]
    ReadFile {
        /// Number of the question; the answer repeats it.
        call: u64,
        /// Below that folder.
        path: &'a str,
        /// Bytes before the piece.
        offset: u64,
        /// Bytes of the piece, at most.
        bytes: u64,
    },
    /// Send these files below `/projects`, and take it that the host knows of the deleted ones.
    Collect {
        /// Number of the request; its end repeats it.
        id: u64,
        /// Files wanted.
        paths: &'a [String],
        /// Files that are gone.
        deleted: &'a [String],
    },
    /// These files could not be kept: they count as changed.
    Forget {
        /// The files.
        paths: &'a [String],
    },
    /// Raise `KeyboardInterrupt` in that execution, if it is still running.
    Interrupt {
        /// Number of the execution.
        id: u64,
    },
}

/// A server that was asked for and is not up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedServer {
    /// Its name.
    pub name: String,
    /// Why.
    pub message: String,
}

/// What one execution may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExecuteLimits {
    /// Bytes of each stream that are sent to the host.
    pub output_bytes: u64,
    /// Files that a process may have open. The first run's counts, for the life of the guest.
    pub open_files: u32,
    /// Bytes of text that the answer may have.
    pub text_bytes: u64,
}

impl ToGuest<'_> {
    /// Appends the frame and its newline to `buffer`.
    #[expect(
        clippy::missing_panics_doc,
        reason = "plain structs into memory cannot fail"
    )]
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        serde_json::to_writer(&mut *buffer, self).expect("plain structs serialise into memory");
        buffer.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
