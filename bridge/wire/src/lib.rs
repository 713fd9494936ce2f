//! The wire to the guest: newline-delimited JSON frames and their codec.
//!
//! **Owns** every frame in both directions, the bounds on their size, and the two streams of an
//! attached guest. No other crate spells the type or a field of a frame. **Must never know** what
//! runs the guest (it takes any [`Ends`]), what is kept on the host ([`StateUpdate`] is its own),
//! or what a frame leads to.
//!
//! Enter through [`Link::new`]; its `receiver` gives an [`Event`] per line, which
//! [`FromGuest::parse`] reads, and its `sender` takes [`ToGuest`] frames, and those that may be
//! large ([`State`], [`RpcResponse`]). All that comes from a guest is hostile: lines have a size
//! limit, text is taken leniently, unknown frames are ignored, and whatever does not parse is a
//! typed [`Error`] that ends that guest.

mod decoder;
mod frame;
mod link;
#[cfg(feature = "testing")]
pub mod testing;
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
    /// A line is longer than the limit.
    #[error("a frame of more than {limit} bytes")]
    FrameTooLarge {
        /// Bytes allowed in a line.
        limit: usize,
    },
    /// A line cannot be read as a frame: broken JSON, or a known type with wrong fields.
    #[error("a malformed frame")]
    Malformed(#[source] serde_json::Error),
    /// An output, `display` or `file` frame whose base64 cannot be read.
    #[error("a frame that is not base64")]
    Base64(#[source] base64::DecodeError),
    /// An output or `display` frame with neither or both of `data` and `base64`.
    #[error("a frame without its data")]
    OutputData,
}

/// What the guest says of itself in its `ready` frame, read from `/proc/self/status` and its
/// cgroup.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct GuestReport {
    /// Effective capabilities, as in `CapEff`.
    pub cap_eff: String,
    /// Bounding capabilities, as in `CapBnd`.
    pub cap_bnd: String,
    /// Whether `NoNewPrivs` is 1.
    pub no_new_privs: bool,
    /// `Seccomp`: 2 is a filter.
    pub seccomp: u8,
    /// Real user ID of the guest.
    pub uid: u32,
    /// Real group ID of the guest.
    pub gid: u32,
    /// Memory limit of the cgroup in bytes, `None` where unlimited or not to be seen.
    pub memory_max: Option<u64>,
    /// Process limit of the cgroup, `None` where unlimited or not to be seen.
    pub pids_max: Option<u64>,
}
