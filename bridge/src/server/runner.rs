//! Sessions as the server sees them: what kind of refusal each of their errors is.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Refused, Runner};
use crate::session::{Error, FileError, OutFile, Progress, Run, RunRequest, Sessions};

#[async_trait]
impl Runner for Sessions {
    fn start(&self, request: RunRequest, progress: Arc<dyn Progress>) -> Result<Arc<Run>, Refused> {
        Sessions::start(self, request, progress).map_err(Refused::from)
    }

    fn find(&self, id: &str, session: Option<&str>) -> Result<Arc<Run>, Refused> {
        Sessions::find(self, id, session).map_err(Refused::from)
    }

    fn files(&self) -> Vec<(String, Vec<OutFile>)> {
        Sessions::files(self)
    }

    async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError> {
        Sessions::read_file(self, session, path).await
    }
}

impl From<Error> for Refused {
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
            | Error::UnknownRun { .. } => Self::Invalid(message),
            Error::QueueFull { .. } => busy("queue_full"),
            Error::TooManySessions { .. } => busy("too_many_sessions"),
            Error::ShuttingDown => busy("shutting_down"),
            Error::Bug { .. } => busy("internal"),
        }
    }
}
