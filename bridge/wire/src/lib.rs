//! The wire to the guest: newline-delimited JSON frames and their codec. The only place that knows the protocol.
//!
//! All that comes from a guest is hostile: lines have a size limit, text is taken leniently, unknown frames are ignored,
//! and whatever does not parse is a typed [`Error`] that ends that guest.

mod decoder;
mod frame;
mod link;
mod trace;

pub use decoder::{FRAME_LIMIT, LineDecoder, TO_GUEST_LIMIT};
pub use frame::{
    ChangedFiles, DoneError, DoneFile, DoneStatus, Dropped, EncodedCard, ExecuteLimits,
    ExecutionDone, FailedServer, FilePiece, Frame, FromGuest, Ready, RpcError, RpcResponse,
    SavedTools, ServerCard, State, StateFile, StateUpdate, StreamKind, ToGuest, ToolCard,
};
pub use link::{ConnectionLost, Ends, Event, Link, Output};

/// Version of the protocol that this bridge speaks.
pub const PROTOCOL: u32 = 1;

/// How a guest broke the protocol.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line went on beyond the limit.
    #[error("a frame of more than {limit} bytes")]
    FrameTooLarge {
        /// Bytes allowed in a line.
        limit: usize,
    },
    /// A line is no frame: broken JSON, or a known type with wrong fields.
    #[error("a malformed frame")]
    Malformed(#[source] serde_json::Error),
    /// An output, `display` or `file` frame whose base64 is none.
    #[error("a frame that is not base64")]
    Base64(#[source] base64::DecodeError),
    /// An output or `display` frame with neither or both of `data` and `base64`.
    #[error("a frame without its data")]
    OutputData,
}

/// What the guest says of itself in its `ready` frame, read from `/proc/self/status` and its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct GuestReport {
    /// Effective capabilities, as in `CapEff`.
    pub cap_eff: String,
    /// Bounding capabilities, as in `CapBnd`.
    pub cap_bnd: String,
    /// `NoNewPrivs` is 1.
    pub no_new_privs: bool,
    /// `Seccomp`: 2 is a filter.
    pub seccomp: u8,
    /// Real user ID.
    pub uid: u32,
    /// Real group ID.
    pub gid: u32,
    /// Memory limit of the cgroup in bytes, `None` where unlimited or not to be seen.
    pub memory_max: Option<u64>,
    /// Process limit of the cgroup, likewise.
    pub pids_max: Option<u64>,
}
