//! The frames to the guest.

use serde::Serialize;

use super::{EncodedCard, RpcResponse, State};

/// A frame that may be as large as what it passes on. Only this crate has any.
pub trait Frame: Serialize + private::Sealed {}

mod private {
    pub trait Sealed {}
}

impl private::Sealed for State<'_> {}
impl Frame for State<'_> {}
impl<P: Serialize> private::Sealed for RpcResponse<'_, P> {}
impl<P: Serialize> Frame for RpcResponse<'_, P> {}

/// A frame to the guest that is small beside what a frame may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ToGuest<'a> {
    /// Runs a piece of code.
    Execute {
        /// Number of the execution; the answer repeats it.
        id: u64,
        /// Number of the cell, as tracebacks show it.
        cell: u64,
        /// Python source to run.
        code: &'a str,
        /// What the code may use.
        limits: ExecuteLimits,
        /// Servers whose proxies are to be made, or made anew.
        #[serde(skip_serializing_if = "<[EncodedCard]>::is_empty")]
        servers: &'a [EncodedCard],
        /// Names of all servers that could be loaded.
        known: &'a [String],
        /// Servers that were asked for and are not up.
        #[serde(skip_serializing_if = "<[FailedServer]>::is_empty")]
        failed: &'a [FailedServer],
    },
    /// Asks for a piece of a file in `/workspace/out`, also while code runs.
    #[serde(rename = "read_file")]
    ReadFile {
        /// Number of the question; the answer repeats it.
        call: u64,
        /// Path below `/workspace/out`.
        path: &'a str,
        /// Bytes before the piece.
        offset: u64,
        /// Bytes of the piece, at most.
        bytes: u64,
    },
    /// Asks for these files below `/projects`, and tells that the host knows of the deleted ones.
    Collect {
        /// Number of the request; its end repeats it.
        id: u64,
        /// Paths of the files wanted.
        paths: &'a [String],
        /// Paths of files that are gone.
        deleted: &'a [String],
    },
    /// Tells that these files could not be kept, so that they count as changed.
    Forget {
        /// Paths of these files.
        paths: &'a [String],
    },
    /// Raises `KeyboardInterrupt` in that execution, if it is still running.
    Interrupt {
        /// Number of the execution.
        id: u64,
    },
}

/// A server that was asked for and is not up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedServer {
    /// Name of the server.
    pub name: String,
    /// Why the server is not up.
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
