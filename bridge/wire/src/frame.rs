//! The frames in both directions; here, those from the guest.
//!
//! Parsing takes two steps, the type first and then the fields that this type has: a frame of an
//! unknown type may hold anything at all. (A tagged enum would also trip over serde's buffering of
//! arbitrary-precision numbers.)

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::{Error, GuestReport};

mod done;
mod lenient;
mod rpc;
mod servers;
mod state;
mod to_guest;

pub use done::{DoneError, DoneFile, DoneStatus, ExecutionDone};
pub use rpc::{RpcError, RpcResponse};
pub use servers::{EncodedCard, ServerCard, ToolCard};
pub use state::{ChangedFiles, FilePiece, SavedTools, State, StateFile, StateUpdate};
pub use to_guest::{ExecuteLimits, FailedServer, Frame, ToGuest};

use done::done;
use lenient::{Number, Text};

/// Which stream a piece of output belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Standard output, file descriptor 1.
    Stdout,
    /// Standard error, file descriptor 2.
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
        /// Media type that the guest claims.
        mime: Cow<'a, str>,
        /// Bytes of the picture or document.
        content: Vec<u8>,
    },
    /// A piece of a file that was asked for.
    File {
        /// Number of the question.
        call: u64,
        /// Size of the whole file, and the piece; `None` where the file cannot be read.
        piece: Option<(u64, Vec<u8>)>,
    },
    /// An execution came to its end.
    ExecutionDone(Box<ExecutionDone>),
    /// The guest is about to end.
    Exit {
        /// Exit status that it will have.
        code: i64,
        /// The kernel killed a process for memory, where the guest can tell.
        out_of_memory: Option<bool>,
    },
    /// User code wants something of the host.
    Request {
        /// Number of the execution that the guest believes to be in.
        id: Option<u64>,
        /// Number of the request; the answer repeats it.
        call: u64,
        /// Name of the method that it calls.
        method: String,
        /// Parameters of the method; `None` where they cannot be held as JSON (lone surrogates,
        /// nesting without end), which is user code's mistake and not a reason to end the guest.
        params: Option<Value>,
    },
    /// The guest does not want an answer any more.
    Cancel {
        /// Number of the request.
        call: u64,
    },
    /// The guest wants the files that it has been told are there.
    Fetch,
    /// A piece of a file that was asked for.
    ProjectFile(FilePiece<'a>),
    /// The guest has sent all files that it was asked for.
    Collected {
        /// Number of the request.
        id: u64,
    },
    /// A frame of a type that this bridge does not know; it is to be ignored.
    Unknown,
}

/// What was dropped of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Number of bytes that were dropped.
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
    /// Version of the protocol that the guest speaks.
    pub protocol: u32,
    /// Version of the guest's Python.
    pub python: String,
    /// What the guest says of its own confinement.
    pub report: GuestReport,
    /// How long the guest's start took.
    #[serde(default)]
    pub timings: ReadyTimings,
}

/// How long the guest's start took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct ReadyTimings {
    /// Since the guest's process began.
    pub start_ms: Option<f64>,
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
            "execution_done" => Ok(Self::ExecutionDone(Box::new(done(fields(line)?)))),
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
            "fetch" => Ok(Self::Fetch),
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

#[cfg(test)]
mod protocol_page;
#[cfg(test)]
mod tests;
