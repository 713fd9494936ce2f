//! What runs the code of calls, as the server sees it, and what kind of refusal each error of the sessions is.

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

    /// A run of before, by its name, or by `last` the latest one of a session.
    fn find(&self, id: &str, session: Option<&str>) -> Result<Arc<Run>, Rejected>;

    /// A client has opened a session of the protocol, which goes on until this is dropped.
    fn open(&self) -> Result<(), Rejected> {
        Ok(())
    }

    /// Files that sessions offer.
    fn files(&self) -> Vec<(String, Vec<OutFile>)>;

    /// The content of one.
    async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError>;
}

/// Why nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The call itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// There is no sandbox.
    #[error("{message}")]
    NoSandbox {
        /// A stable code, the same as doctor's.
        code: &'static str,
        /// What happened and how to mend it.
        message: String,
    },
    /// The bridge cannot take the call now.
    #[error("{message}")]
    Busy {
        /// A stable word.
        reason: &'static str,
        /// What to do.
        message: String,
    },
}

impl Rejected {
    /// The answer that says so.
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
