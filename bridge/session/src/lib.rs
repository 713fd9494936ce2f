//! Python sessions: one actor each, its queue, deadlines, interrupt, restart and honest state.
//!
//! [`Sessions`] is the door; behind it each session is one task that owns at most one guest and serves one call at a time.
//! What a guest does is never trusted: it can end its own run and itself, and nothing else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use bridge_broker::Summary;
use bridge_engine::{Attached, Exit};
use bridge_upstream::{Interact, NoClient};

mod actor;
mod answer;
mod capture;
mod clock;
mod dispatch;
mod display;
mod ending;
mod execution;
mod files;
mod kept;
mod name;
mod queue;
mod registry;
mod run;
mod runs;
mod servers;
mod start;
#[cfg(any(test, feature = "testing"))]
mod testing;

pub use display::{Content, Display, Displays};
pub use files::{FILE_LIMIT, FileError, OutFile};
pub use name::is_session_name;
pub use registry::Sessions;
pub use run::{CancelOnDrop, Run};
pub use runs::KEPT_FOR;

/// Bytes of source that one call may have.
pub const CODE_LIMIT: usize = 12 << 20;

/// Starts verified, hardened guests. The real one uses an engine; tests may use a local process.
#[async_trait]
pub trait Launch: Send + Sync + 'static {
    /// Starts a guest for `session`, or for whichever will want it. Phases that take long (loading the image, starting an engine) are told to
    /// `progress`: from the first such report until the guest is there, a call's clock stands still. Dropping the
    /// future gives up and must leave nothing behind; that happens at shutdown only.
    async fn launch(
        &self,
        session: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<Box<dyn Guest>, LaunchError>;
}

/// A started guest. Dropping it kills it.
#[async_trait]
pub trait Guest: Send {
    /// Its ends; taken once.
    fn attach(&mut self) -> Option<Attached>;
    /// Checks what the guest said of itself in its `ready` frame against what was asked for.
    fn check(&self, report: &bridge_wire::GuestReport) -> Result<(), LaunchError>;
    /// How it ended; waits until then, and is to be asked once its output has ended. An error says that nobody can tell, because the engine went away.
    async fn exit(&mut self) -> Result<Exit, bridge_engine::Error>;
    /// Kills and removes it; returns once it is dead. Never called twice; must not be cut short by dropping the future.
    async fn kill(&mut self);
}

/// Told of phases that may take over a second, such as loading the image.
pub trait Progress: Send + Sync {
    /// `message` is for people; `done` of `total` where there is a count.
    fn report(&self, message: &str, done: u64, total: Option<u64>);
}

/// Why no guest could be started: for the person behind the model.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LaunchError {
    /// A stable code, the same as doctor's: `E0` engine, `L0` limits, `I0` image, `G0` guest start.
    pub code: &'static str,
    /// What happened, what was expected, and how to mend it.
    pub message: String,
}

/// One call of `run_python`.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// Name of the session; `None`: the connection's own.
    pub session: Option<String>,
    /// Python source.
    pub code: String,
    /// The whole call's time limit.
    pub timeout: Duration,
    /// Start the session afresh first.
    pub reset: bool,
    /// Bytes of text that the answer may have; a last expression that is large beside it comes as a preview.
    pub text_bytes: u64,
    /// MCP servers that the session may use from now on.
    pub servers: Vec<String>,
    /// Who answers questions of servers.
    pub client: Client,
    /// Fires when the client gives up.
    pub cancel: CancellationToken,
}

/// The client behind a call, as far as a server can reach it.
#[derive(Clone)]
pub struct Client(pub Arc<dyn Interact>);

impl Default for Client {
    /// NoClient can be asked.
    fn default() -> Self {
        Self(Arc::new(NoClient))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Client")
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The code ran to its end.
    Success,
    /// The code failed, or the guest did.
    Error,
    /// The time limit was reached.
    Timeout,
    /// The client gave up.
    Cancelled,
    /// The code runs on; this is what it has written so far.
    Running,
}

/// What became of the session's variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They are kept.
    Kept,
    /// They are gone; the next call starts afresh.
    Lost,
}

/// One captured stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// The first bytes, at most the limit.
    pub bytes: Vec<u8>,
    /// How many more there were.
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

/// An error of the code or of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// Exception class, or a reason such as `memory_limit`, `guest_exit`, `protocol`.
    pub kind: String,
    /// What happened, in words of the task.
    pub message: String,
    /// User frames only; empty where there is none.
    pub traceback: String,
}

/// What a run produced.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// How it ended.
    pub status: Status,
    /// The session it ran in.
    pub session: String,
    /// Number of the cell in its sandbox; 0 where nothing was run.
    pub cell: u64,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// What went wrong; `None` after success, and where `exit_code` says it all.
    pub error: Option<RunError>,
    /// Pictures and documents that were shown.
    pub displays: Displays,
    /// Files in `/workspace/out` that are new or were changed.
    pub files: Vec<OutFile>,
    /// `sys.exit` status or the guest's exit code, where there is one.
    pub exit_code: Option<i64>,
    /// `repr` of a bare last expression that is not `None`.
    pub result: Option<String>,
    /// Whether variables survived.
    pub state: State,
    /// Said once after a loss: `fresh session (the previous one was killed after a time limit)`.
    pub note: Option<String>,
    /// Servers that the session has loaded.
    pub servers: Vec<String>,
    /// What became of tool calls.
    pub calls: Summary,
    /// The limit that applied.
    pub timeout: Duration,
    /// The run's name, where it was left running.
    pub run: Option<String>,
    /// Since the run was asked for.
    pub elapsed: Duration,
}

impl RunOutcome {
    /// With nothing to show, and variables kept.
    pub fn bare(session: &str, status: Status, timeout: Duration) -> Self {
        Self {
            status,
            session: session.to_owned(),
            cell: 0,
            stdout: Captured::default(),
            stderr: Captured::default(),
            error: None,
            displays: Displays::default(),
            files: Vec::new(),
            exit_code: None,
            result: None,
            state: State::Kept,
            note: None,
            servers: Vec::new(),
            calls: Summary::default(),
            timeout,
            run: None,
            elapsed: Duration::ZERO,
        }
    }
}

/// Why a call has no outcome: nothing was run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No guest could be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The session's queue is full.
    #[error("session {session:?} has {limit} calls waiting already; let one of them end first")]
    QueueFull {
        /// The session.
        session: String,
        /// Calls that may wait.
        limit: usize,
    },
    /// The name is none that a session can have.
    #[error(
        "{name:?} is no session name: 1 to {limit} of the characters A-Z a-z 0-9 . _ - are, the first a letter or a digit"
    )]
    BadName {
        /// The name, shortened.
        name: String,
        /// Characters allowed.
        limit: usize,
    },
    /// As many sessions exist as may.
    #[error("{limit} sessions exist already, the most there may be: {}; use one of them", names.join(", "))]
    TooManySessions {
        /// Sessions at once.
        limit: usize,
        /// Those that exist.
        names: Vec<String>,
    },
    /// A server was asked for that cannot be loaded; the message names those that can.
    #[error("{0}")]
    Servers(String),
    /// The source does not fit into one frame.
    #[error("the code is too large: at most {} MiB are accepted, less where much of it needs escapes", limit >> 20)]
    CodeTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// No run has that name, or no longer.
    #[error("{}, or its result was kept for long enough; {}", match session {
        Some(session) => format!("session {session:?} has had no run"),
        None => format!("there is no run {id:?}"),
    }, match known.as_slice() {
        [] => "none is running".to_owned(),
        known => format!("known: {}", known.join(", ")),
    })]
    UnknownRun {
        /// The name, shortened.
        id: String,
        /// The session, where its latest run was asked for.
        session: Option<String>,
        /// Those that were left running.
        known: Vec<String>,
    },
    /// The run is one of another session.
    #[error("run {id:?} belongs to session {session:?}: name that one, or none")]
    RunElsewhere {
        /// Its name.
        id: String,
        /// Its session.
        session: String,
    },
    /// The bridge is going down.
    #[error("the bridge is shutting down")]
    ShuttingDown,
    /// The session's task ended without an answer: our fault.
    #[error(
        "session {session:?} failed inside the bridge; its variables are lost, call again for a fresh one"
    )]
    Bug {
        /// The session.
        session: String,
    },
}

#[cfg(test)]
mod tests;
