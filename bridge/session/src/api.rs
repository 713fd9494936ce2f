//! What callers of the sessions hand in and may get back: requests, errors, and the ports that a
//! bridge fills.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use bridge_engine::{Attached, Exit};
use bridge_upstream::{Interact, NoClient};

/// Bytes of source that one call may have.
pub const CODE_LIMIT: usize = 12 << 20;

/// How long the result of a run is kept.
pub const KEPT_FOR: Duration = Duration::from_secs(600);

/// Starts verified, hardened guests. The real launcher uses an engine; tests may use a local
/// process.
#[async_trait]
pub trait Launch: Send + Sync + 'static {
    /// Starts a guest for `session`, or for whichever session will want it.
    ///
    /// Phases that take long (loading the image, starting an engine) are reported to `progress`:
    /// from the first report until the guest is there, a call's clock stands still. Dropping the
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
    /// The guest's input and output; they can be taken once.
    fn attach(&mut self) -> Option<Attached>;
    /// Checks what the guest said of itself in its `ready` frame against what was asked for.
    fn check(&self, report: &bridge_wire::GuestReport) -> Result<(), LaunchError>;
    /// Waits until the guest has ended and says how. Called once its output has ended. An error
    /// means that nobody can tell, because the engine went away.
    async fn exit(&mut self) -> Result<Exit, bridge_engine::Error>;
    /// Kills and removes the guest; returns once it is dead. Called at most once, and never cut
    /// short by dropping the future.
    async fn kill(&mut self);
}

/// Hears of phases that may take over a second, such as loading the image.
pub trait Progress: Send + Sync {
    /// `message` is for people; `done` of `total` where there is a count.
    fn report(&self, message: &str, done: u64, total: Option<u64>);
}

/// Why no guest could be started, for the person behind the model.
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
    /// Name of the session; `None` means the connection's own.
    pub session: Option<String>,
    /// Python source to run.
    pub code: String,
    /// Time limit of the whole call.
    pub timeout: Duration,
    /// Start the session afresh first.
    pub reset: bool,
    /// Bytes of text that the answer may have; a last expression that is large beside it comes as a
    /// preview.
    pub text_bytes: u64,
    /// MCP servers that the session may use from now on.
    pub servers: Vec<String>,
    /// Answers questions of servers.
    pub client: Client,
    /// Fires when the client gives up.
    pub cancel: CancellationToken,
}

/// The client behind a call, as far as a server can reach it.
#[derive(Clone)]
pub struct Client(pub Arc<dyn Interact>);

impl Default for Client {
    /// A client that cannot be asked anything.
    fn default() -> Self {
        Self(Arc::new(NoClient))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Client")
    }
}

/// Why a call has no outcome: nothing was run.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum Error {
    /// No guest could be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The session's queue is full.
    #[error("session {session:?} has {limit} calls waiting already; let one of them end first")]
    QueueFull { session: String, limit: usize },
    /// A session cannot have this name, which is shortened here.
    #[error(
        "invalid session name {name:?}: use 1 to {limit} letters, digits, \".\", \"_\" or \"-\", starting with a letter or \
         digit"
    )]
    BadName { name: String, limit: usize },
    /// As many sessions exist as may.
    #[error("cannot start another session: the limit of {limit} is reached (max_sessions); use one of {}", names.join(", "))]
    TooManySessions { limit: usize, names: Vec<String> },
    /// A server was asked for that cannot be loaded; the message names those that can.
    #[error("{0}")]
    Servers(String),
    /// The source does not fit into one frame.
    #[error("the code is too large: at most {} MiB are accepted, less where much of it needs escapes", limit >> 20)]
    CodeTooLarge { limit: usize },
    /// The system has no random bytes to name the run with, and a name that can be guessed is not
    /// good enough.
    #[error("cannot name the run: the system gave no random bytes ({reason})")]
    NoRandomName { reason: String },
    /// No run has this name (shortened), or no longer; `session` is there where its latest run was
    /// asked for.
    #[error("{}", unknown_run(id, session.as_deref(), known))]
    UnknownRun {
        id: String,
        session: Option<String>,
        known: Vec<String>,
    },
    /// The run belongs to another session.
    #[error("run {id:?} belongs to session {session:?}: name that one, or none")]
    RunElsewhere { id: String, session: String },
    /// The bridge is going down.
    #[error("the bridge is shutting down")]
    ShuttingDown,
    /// The session's task ended without an answer, which is the bridge's own fault.
    #[error(
        "session {session:?} failed inside the bridge; its variables are lost, call again for a fresh one"
    )]
    Bug { session: String },
}

fn unknown_run(id: &str, session: Option<&str>, known: &[String]) -> String {
    let what = match session {
        Some(session) => format!("no run of session {session:?}"),
        None => format!("no run {id:?}"),
    };
    let others = match known {
        [] => "nothing is running".to_owned(),
        known => format!("known: {}", known.join(", ")),
    };
    let minutes = KEPT_FOR.as_secs() / 60;
    format!("{what}: results are kept for {minutes} minutes; {others}")
}
