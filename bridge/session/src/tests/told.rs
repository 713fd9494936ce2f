//! What an outcome says to its reader: the tests compare the words that `bridge-render` has for it.

#[path = "../../../render/src/words.rs"]
mod words;

use super::super::{Ending, Reaction, RunOutcome};

/// What went wrong, in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunError {
    /// Class of the code's exception, or the reason.
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) traceback: String,
}

impl RunOutcome {
    /// The notes, in words.
    pub(super) fn note(&self) -> Option<String> {
        words::notes(&self.notes)
    }

    /// The error, in words; `None` after success, and where the exit status says it all.
    pub(super) fn error(&self) -> Option<RunError> {
        if let Ending::Raised { exception, .. } = &self.ending {
            return Some(RunError {
                kind: exception.class.clone(),
                message: exception.message.clone(),
                traceback: exception.traceback.clone(),
            });
        }
        if self.ending == Ending::Failed {
            return Some(RunError {
                kind: "error".to_owned(),
                message: "the code failed; why is not known".to_owned(),
                traceback: String::new(),
            });
        }
        let message = words::message(&self.ending, self.identity.timeout, true)?;
        let traceback = match &self.ending {
            Ending::Stopped {
                reaction: Reaction::Finished { traceback, .. },
                ..
            } => traceback.clone(),
            _ => String::new(),
        };
        Some(RunError {
            kind: self.ending.reason()?.as_str().to_owned(),
            message,
            traceback,
        })
    }
}
