//! The port through which the server runs code, and how errors of the sessions are reported.

use std::sync::Arc;

use async_trait::async_trait;

use bridge_render::Rendered;
use bridge_session::{Error, FileError, OutFile, Progress, Run, RunRequest, Sessions};

/// Runs code in sessions.
#[async_trait]
pub trait Runner: Send + Sync + 'static {
    /// Begins a run. It ends soon after `request.cancel` fires.
    fn start(&self, request: RunRequest, progress: Arc<dyn Progress>)
    -> Result<Arc<Run>, Rejected>;

    /// Finds an earlier run by its name; `last` means the latest one of a session.
    fn find(&self, id: &str, session: Option<&str>) -> Result<Arc<Run>, Rejected>;

    /// Called when a client opens an MCP session, which lasts until the runner is dropped.
    fn open(&self) -> Result<(), Rejected> {
        Ok(())
    }

    /// The files that each session offers, by the session's name.
    fn files(&self) -> Vec<(String, Vec<OutFile>)>;

    /// Reads one of these files.
    async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError>;
}

/// Why a call was rejected without running anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The arguments of the call are wrong.
    #[error("{0}")]
    Invalid(String),
    /// A sandbox cannot be started.
    #[error("{message}")]
    NoSandbox {
        /// Stable code, the same as `doctor` prints.
        code: &'static str,
        /// What failed, why, and what to do.
        message: String,
    },
    /// The bridge cannot take the call at the moment.
    #[error("{message}")]
    Busy {
        /// Stable word such as `queue_full`.
        reason: &'static str,
        /// What failed and what to do.
        message: String,
    },
}

impl Rejected {
    /// The answer that tells the model.
    pub fn to_rendered(&self) -> Rendered<'_> {
        match self {
            Self::Invalid(message) => Rendered::invalid(message),
            Self::NoSandbox { code, message } => Rendered::refused(code, message),
            Self::Busy { reason, message } => Rendered::refused(reason, message),
        }
    }
}

#[async_trait]
impl Runner for Sessions {
    fn start(
        &self,
        request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<Arc<Run>, Rejected> {
        Sessions::start(self, request, progress).map_err(Rejected::from)
    }

    fn find(&self, id: &str, session: Option<&str>) -> Result<Arc<Run>, Rejected> {
        Sessions::find(self, id, session).map_err(Rejected::from)
    }

    fn files(&self) -> Vec<(String, Vec<OutFile>)> {
        Sessions::files(self)
    }

    async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError> {
        Sessions::read_file(self, session, path).await
    }
}

impl From<Error> for Rejected {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let busy = |reason| Self::Busy {
            reason,
            message: message.clone(),
        };
        match error {
            Error::Launch(error) => Self::NoSandbox {
                code: error.code,
                message: error.message,
            },
            Error::BadName { .. }
            | Error::CodeTooLarge { .. }
            | Error::Servers(_)
            | Error::UnknownRun { .. }
            | Error::RunElsewhere { .. } => Self::Invalid(message),
            Error::QueueFull { .. } => busy("queue_full"),
            Error::TooManySessions { .. } => busy("too_many_sessions"),
            Error::ShuttingDown => busy("shutting_down"),
            Error::NoRandomName { .. } | Error::Bug { .. } => busy("internal"),
        }
    }
}
