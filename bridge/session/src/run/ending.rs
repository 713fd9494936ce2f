//! How a run ended, as a value that cannot contradict itself.

use std::time::Duration;

use super::exit_status::ExitStatus;

/// How a run ended, in one word.
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
    /// The code runs on.
    Running,
}

/// What became of the session's variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Variables are kept for the next call.
    Kept,
    /// Variables are gone; the next call starts afresh.
    Lost,
}

/// Why a run is to end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// The time limit was reached.
    TimeLimit,
    /// The client gave up.
    Cancelled,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The code ran to its end, or called `sys.exit(0)`.
    Success {
        /// A bare last expression that is not `None`: its `repr`, or a preview.
        result: Option<String>,
        /// Status of `sys.exit`, where the code called it.
        exit_code: Option<i64>,
    },
    /// The code raised an exception.
    Raised {
        /// The exception that ended it.
        exception: Exception,
        /// As after success; a figure that cannot be drawn fails after that.
        result: Option<String>,
    },
    /// The code called `sys.exit`.
    Exit {
        /// Status that it gave.
        code: i64,
    },
    /// The code failed, and the guest does not say why.
    Failed,
    /// The run was stopped.
    Stopped {
        /// Why the run was stopped.
        by: Stop,
        /// How the code took it.
        reaction: Reaction,
    },
    /// The guest died, perhaps while the run was being stopped.
    Died {
        /// How the guest died.
        death: Death,
        /// Why the run was being stopped, where it was.
        stopped: Option<Stop>,
    },
    /// The code was not run at all.
    NotStarted {
        /// What kept the code from starting.
        obstacle: Obstacle,
        /// Lost where an earlier call took the variables with it and no answer has said so.
        state: State,
    },
    /// The code runs on, or has yet to start.
    Running,
}

/// What code did when it was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// The code ended with `KeyboardInterrupt`.
    Interrupted {
        /// The user's line that was interrupted.
        place: Option<String>,
    },
    /// It handled the interrupt and ended by itself.
    Finished {
        /// User frames of what it raised; empty where it raised nothing.
        traceback: String,
        /// A bare last expression, as after success.
        result: Option<String>,
        /// Status of `sys.exit`, where the code called it.
        exit_code: Option<i64>,
    },
    /// It did nothing, and its guest was killed after this time.
    Killed {
        /// Time that it had to react.
        grace: Duration,
    },
}

/// What kept code from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The client withdrew the call while it waited.
    Withdrawn,
    /// The call waited for as long as it may take behind a run that was left running.
    HeldUp {
        /// Name of the other run.
        behind: String,
    },
    /// The call was stopped while its sandbox was starting.
    SandboxStarting(Stop),
    /// The time limit was reached when the sandbox was up.
    TimeSpentOnStart,
    /// The call was stopped while servers were starting.
    ServersStarting {
        /// Why the call was stopped.
        by: Stop,
        /// Servers that the call asked for.
        servers: Vec<String>,
    },
}

/// How a guest died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    /// The kernel killed it at its memory limit.
    Memory {
        /// The limit in bytes.
        limit: u64,
        /// False where SIGKILL is all that is known.
        certain: bool,
    },
    /// It ended by itself.
    Exit {
        /// Exit status of PID 1.
        status: ExitStatus,
        /// Last words of the interpreter or the runtime on the container's standard error.
        last_words: String,
    },
    /// It was killed because it broke the protocol.
    Protocol(Breach),
    /// The engine, or the connection to it, went away.
    EngineLost {
        /// What the connection to the engine said.
        reason: String,
    },
}

/// How a guest broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breach {
    /// It sent something that cannot be read as a frame.
    Malformed(String),
    /// It sent meaningless frames without end.
    Flood,
    /// It does not read what it is sent.
    Unread,
    /// It announced its end and went on.
    WentOnAfterExit,
    /// It closed its output and went on.
    WentOnWithoutOutput,
}

/// A stable word for what ended a run other than the code's own exception or exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The time limit was reached.
    Timeout,
    /// The client gave up.
    Cancelled,
    /// Another run of the session goes on.
    Busy,
    /// The guest was killed at its memory limit.
    MemoryLimit,
    /// The guest's process ended.
    GuestExit,
    /// The guest broke the protocol.
    Protocol,
    /// The container engine went away.
    EngineLost,
}

impl Reason {
    /// The word as clients read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Busy => "busy",
            Self::MemoryLimit => "memory_limit",
            Self::GuestExit => "guest_exit",
            Self::Protocol => "protocol",
            Self::EngineLost => "engine_lost",
        }
    }
}

impl Stop {
    /// The status of a run that was stopped for this.
    pub fn status(self) -> Status {
        match self {
            Self::TimeLimit => Status::Timeout,
            Self::Cancelled => Status::Cancelled,
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::TimeLimit => Reason::Timeout,
            Self::Cancelled => Reason::Cancelled,
        }
    }
}

impl Death {
    /// The stable word for it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Memory { .. } => Reason::MemoryLimit,
            Self::Exit { .. } => Reason::GuestExit,
            Self::Protocol(_) => Reason::Protocol,
            Self::EngineLost { .. } => Reason::EngineLost,
        }
    }

    fn exit_code(&self) -> Option<i64> {
        match self {
            Self::Exit { status, .. } => status.known(),
            Self::Memory { .. } => ExitStatus::KILLED.known(),
            Self::Protocol(_) | Self::EngineLost { .. } => None,
        }
    }
}

impl Obstacle {
    fn status(&self) -> Status {
        match self {
            Self::Withdrawn => Status::Cancelled,
            Self::HeldUp { .. } | Self::TimeSpentOnStart => Status::Timeout,
            Self::SandboxStarting(by) | Self::ServersStarting { by, .. } => by.status(),
        }
    }

    fn reason(&self) -> Reason {
        match self {
            Self::Withdrawn => Reason::Cancelled,
            Self::HeldUp { .. } => Reason::Busy,
            Self::TimeSpentOnStart => Reason::Timeout,
            Self::SandboxStarting(by) | Self::ServersStarting { by, .. } => by.reason(),
        }
    }
}

impl Ending {
    /// The end of a call that never began and took nothing with it.
    pub fn not_started(obstacle: Obstacle) -> Self {
        Self::NotStarted {
            obstacle,
            state: State::Kept,
        }
    }

    /// The ending in one word.
    pub fn status(&self) -> Status {
        match self {
            Self::Success { .. } => Status::Success,
            Self::Raised { .. } | Self::Exit { .. } | Self::Failed => Status::Error,
            Self::Stopped { by, .. } => by.status(),
            Self::Died { stopped, .. } => stopped.map_or(Status::Error, Stop::status),
            Self::NotStarted { obstacle, .. } => obstacle.status(),
            Self::Running => Status::Running,
        }
    }

    /// What became of the session's variables.
    pub fn state(&self) -> State {
        match self {
            Self::Died { .. }
            | Self::Stopped {
                reaction: Reaction::Killed { .. },
                ..
            } => State::Lost,
            Self::NotStarted { state, .. } => *state,
            _ => State::Kept,
        }
    }

    /// Why the run ended, where that was neither the code's own exception nor its exit.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Stopped { by, .. } => Some(by.reason()),
            Self::Died { death, stopped } => {
                Some(stopped.map_or_else(|| death.reason(), Stop::reason))
            }
            Self::NotStarted { obstacle, .. } => Some(obstacle.reason()),
            Self::Success { .. }
            | Self::Raised { .. }
            | Self::Exit { .. }
            | Self::Failed
            | Self::Running => None,
        }
    }

    /// Status of `sys.exit`, or of a guest that ended by itself.
    pub fn exit_code(&self) -> Option<i64> {
        match self {
            Self::Success { exit_code, .. }
            | Self::Stopped {
                reaction: Reaction::Finished { exit_code, .. },
                ..
            } => *exit_code,
            Self::Exit { code } => Some(*code),
            Self::Died { death, .. } => death.exit_code(),
            _ => None,
        }
    }

    /// What a bare last expression is: its `repr`, or a preview.
    pub fn result(&self) -> Option<&str> {
        match self {
            Self::Success { result, .. }
            | Self::Raised { result, .. }
            | Self::Stopped {
                reaction: Reaction::Finished { result, .. },
                ..
            } => result.as_deref(),
            _ => None,
        }
    }
}

/// An exception of the code, bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// Name of the class.
    pub class: String,
    /// `str` of the exception.
    pub message: String,
    /// User frames only; empty where there are none.
    pub traceback: String,
}
