//! What a call is told: true in every word, and bounded, for most of it comes from the guest.

use std::time::Duration;

use super::ending::{Ending, duration};
use super::execution::Stop;
use super::name::SessionName;
use super::{RunError, RunOutcome, State, Status};
use bridge_wire::{DoneError, DoneStatus, ExecutionDone};

/// Bytes kept of a class name or a place in the code.
const WORD_LIMIT: usize = 256;
/// Bytes kept of an exception's message.
const MESSAGE_LIMIT: usize = 16 << 10;
/// Bytes kept of a traceback.
const TRACEBACK_LIMIT: usize = 64 << 10;

/// What a call is answered, but for output and note.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: Status,
    state: State,
    error: Option<RunError>,
    exit_code: Option<i64>,
    result: Option<String>,
}

impl Answer {
    /// The guest says that the execution is done; perhaps because it was stopped.
    pub(super) fn done(
        done: ExecutionDone,
        stopped: Option<Stop>,
        timeout: Duration,
        result_bytes: u64,
    ) -> Self {
        let raised = done.error.map(bounded);
        let (status, error) = match (stopped, done.status) {
            (Some(stop), DoneStatus::Interrupted) => {
                let place = done.place.map_or_else(String::new, |place| {
                    format!(" in {}", one_line(cut(place, WORD_LIMIT)))
                });
                let message = format!("{}{place}; variables are kept", stop.words(timeout));
                (stop.status(), Some(stop.error(message, String::new())))
            }
            (Some(stop), _) => {
                let message = format!(
                    "{}: the code ended in its own way when it was interrupted; variables are kept",
                    stop.words(timeout)
                );
                let traceback = raised.map_or_else(String::new, |raised| raised.traceback);
                (stop.status(), Some(stop.error(message, traceback)))
            }
            (None, DoneStatus::Success) => (Status::Success, None),
            (None, DoneStatus::Error) => {
                let unsaid = || error("error", "the code failed; why is not known".to_owned());
                // `sys.exit(3)` has no exception to show.
                let said = done.exit_code.is_some();
                (Status::Error, raised.or_else(|| (!said).then(unsaid)))
            }
            (None, DoneStatus::Interrupted) => {
                let plain = || error("KeyboardInterrupt", String::new());
                (Status::Error, Some(raised.unwrap_or_else(plain)))
            }
        };
        let limit = usize::try_from(result_bytes).unwrap_or(usize::MAX);
        Self {
            status,
            state: State::Kept,
            error,
            exit_code: done.exit_code,
            result: done.result.map(|result| cut(result, limit)),
        }
    }

    /// The guest died; perhaps while it was being stopped.
    pub(super) fn dead(ending: &Ending, stopped: Option<Stop>, timeout: Duration) -> Self {
        let (status, error) = match stopped {
            None => (Status::Error, error(ending.kind(), ending.message())),
            Some(stop) => {
                let message = format!("{}; {}", stop.words(timeout), ending.message());
                (stop.status(), stop.error(message, String::new()))
            }
        };
        Self {
            exit_code: ending.exit_code(),
            ..Self::failed(status, State::Lost, error)
        }
    }

    /// The code did not react to the interrupt and its guest was killed.
    pub(super) fn killed(stop: Stop, timeout: Duration, grace: Duration) -> Self {
        let message = format!(
            "{}: did not react within {} and was killed; variables are lost, a fresh session starts with the next call",
            stop.words(timeout),
            duration(grace)
        );
        let error = stop.error(message, String::new());
        Self::failed(stop.status(), State::Lost, error)
    }

    /// The call ended before its sandbox was up.
    pub(super) fn stopped_at_start(stop: Stop, timeout: Duration) -> Self {
        let message = format!(
            "{}: the sandbox was still starting, nothing was run; the next call uses it",
            stop.words(timeout)
        );
        Self::failed(
            stop.status(),
            State::Kept,
            stop.error(message, String::new()),
        )
    }

    /// The call ended when all was ready and nothing had been run.
    pub(super) fn stopped_before_run(stop: Stop, timeout: Duration) -> Self {
        let message = match stop {
            Stop::Cancelled => return Self::withdrawn(),
            Stop::Timeout => format!(
                "{}: all of the time went into starting the sandbox, nothing was run; the next call uses it",
                stop.words(timeout)
            ),
        };
        Self::failed(
            stop.status(),
            State::Kept,
            stop.error(message, String::new()),
        )
    }

    /// The call ended while servers were still starting.
    pub(super) fn stopped_at_servers(stop: Stop, timeout: Duration, servers: &[String]) -> Self {
        let which = match servers {
            [] => "the session's servers were".to_owned(),
            [one] => format!("server {one:?} was"),
            several => format!("servers {} were", several.join(", ")),
        };
        let message = format!(
            "{}: {which} still starting, nothing was run; starting goes on, call again",
            stop.words(timeout)
        );
        Self::failed(
            stop.status(),
            State::Kept,
            stop.error(cut(message, MESSAGE_LIMIT), String::new()),
        )
    }

    /// The call was withdrawn while it waited.
    pub(super) fn withdrawn() -> Self {
        let message = "cancelled before it began; nothing was run".to_owned();
        let error = error("cancelled", message);
        Self::failed(Status::Cancelled, State::Kept, error)
    }

    /// The run goes on.
    pub(super) fn running() -> Self {
        Self {
            status: Status::Running,
            state: State::Kept,
            error: None,
            exit_code: None,
            result: None,
        }
    }

    /// The call waited for its turn for as long as it may take, behind a run that was left running.
    pub(super) fn held_up(other: &str, timeout: Duration) -> Self {
        let message = format!(
            "not begun within {}: run {other:?} of the same session still goes on; wait for it with run={other:?}, end it \
             with cancel, or name another session",
            duration(timeout)
        );
        let error = error("busy", message);
        Self::failed(Status::Timeout, State::Kept, error)
    }

    fn failed(status: Status, state: State, error: RunError) -> Self {
        Self {
            status,
            state,
            error: Some(error),
            exit_code: None,
            result: None,
        }
    }

    /// With what else belongs to it, but for the output.
    pub(super) fn outcome(
        self,
        session: &SessionName,
        note: Option<String>,
        timeout: Duration,
    ) -> RunOutcome {
        RunOutcome {
            error: self.error,
            exit_code: self.exit_code,
            result: self.result,
            state: self.state,
            note,
            ..RunOutcome::bare(session.as_str(), self.status, timeout)
        }
    }
}

impl Stop {
    fn status(self) -> Status {
        match self {
            Self::Timeout => Status::Timeout,
            Self::Cancelled => Status::Cancelled,
        }
    }

    fn words(self, timeout: Duration) -> String {
        match self {
            Self::Timeout => format!("stopped after {}", duration(timeout)),
            Self::Cancelled => "cancelled".to_owned(),
        }
    }

    fn error(self, message: String, traceback: String) -> RunError {
        let kind = match self {
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        };
        RunError {
            traceback,
            ..error(kind, message)
        }
    }
}

fn error(kind: &str, message: String) -> RunError {
    RunError {
        kind: kind.to_owned(),
        message,
        traceback: String::new(),
    }
}

fn bounded(raised: DoneError) -> RunError {
    RunError {
        kind: one_line(cut(raised.kind, WORD_LIMIT)),
        message: cut(raised.message, MESSAGE_LIMIT),
        traceback: cut(raised.traceback, TRACEBACK_LIMIT),
    }
}

/// The first `limit` bytes of a text, and how much is missing.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let end = (0..=limit)
        .rfind(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    let missing = text.len() - end;
    text.truncate(end);
    text + &format!("... ({missing} bytes left out)")
}

fn one_line(text: String) -> String {
    if text.contains(char::is_control) {
        text.replace(char::is_control, " ")
    } else {
        text
    }
}
