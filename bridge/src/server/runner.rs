//! Sessions as the server sees them: what kind of refusal each of their errors is.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Refused, Runner};
use crate::session::{Error, FileError, OutFile, Progress, RunOutcome, RunRequest, Sessions};

#[async_trait]
impl Runner for Sessions {
    async fn run(
        &self,
        request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<RunOutcome, Refused> {
        Sessions::run(self, request, progress)
            .await
            .map_err(Refused::from)
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
            Error::BadName { .. } | Error::CodeTooLarge { .. } | Error::Servers(_) => {
                Self::Invalid(message)
            }
            Error::QueueFull { .. } => busy("queue_full"),
            Error::TooManySessions { .. } => busy("too_many_sessions"),
            Error::ShuttingDown => busy("shutting_down"),
            Error::Bug { .. } => busy("internal"),
        }
    }
}
