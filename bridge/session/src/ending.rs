//! How a guest ended, in words that are true: for the call that it struck, and for the first call of its successor.

use std::time::Duration;

use bridge_engine::{self as engine, Exit};
use bridge_wire::{self as guest, ConnectionLost};

/// Exit status after SIGKILL.
const KILLED: i64 = 137;

/// What the session's task saw when its guest went away.
#[derive(Debug)]
pub(super) enum Death {
    /// The guest's `exit` frame. User code can forge it; what the engine says counts more.
    Exit {
        /// Status it is about to end with.
        code: i64,
        /// Its kernel killed a process for memory, where the guest can tell.
        out_of_memory: Option<bool>,
    },
    /// Its output ended.
    Ended,
    /// The connection to it broke.
    Lost(ConnectionLost),
    /// It broke the protocol and must be killed.
    Broken(guest::Error),
    /// It sent frames that mean nothing, without end, and must be killed.
    Flood,
    /// It does not take what it is sent, and must be killed.
    Unread,
}

impl Death {
    /// It is alive still.
    pub(super) fn needs_kill(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Flood | Self::Unread)
    }
}

/// How a guest came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Killed after a time limit.
    TimeLimit,
    /// Killed after a cancelled call.
    Cancelled,
    /// Killed by the kernel at its memory limit.
    Memory {
        /// The limit in bytes.
        limit: u64,
        /// False where SIGKILL is all that is known.
        certain: bool,
    },
    /// Ended by itself.
    Exit {
        /// Exit status.
        code: i64,
        /// Last words of the interpreter or the runtime.
        words: String,
    },
    /// Killed because it broke the protocol.
    Protocol {
        /// What it did.
        what: String,
    },
    /// The engine or the connection to it went away.
    EngineLost {
        /// What the engine's connection said.
        reason: String,
    },
    /// The client asked for a fresh one.
    Reset,
    /// Closed because it was not used.
    Idle(Duration),
    /// The bridge's own fault.
    Bug,
}

impl Ending {
    /// Judges from what was seen and what the engine says; `exit` is `None` where the guest goes on living.
    pub(super) fn judge(
        death: &Death,
        exit: Option<Result<Exit, engine::Error>>,
        limit: Option<u64>,
        words: String,
    ) -> Self {
        let told = match death {
            Death::Broken(error) => return Self::protocol(&error.to_string()),
            Death::Flood => return Self::protocol("a flood of frames that mean nothing"),
            Death::Unread => return Self::protocol("it does not read what it is sent"),
            Death::Exit { out_of_memory, .. } => *out_of_memory,
            Death::Ended | Death::Lost(_) => None,
        };
        let (code, out_of_memory) = match (death, exit) {
            (Death::Exit { code, .. }, Some(Ok(exit))) if exit.code < 0 => {
                (*code, exit.out_of_memory)
            }
            (_, Some(Ok(exit))) => (exit.code, exit.out_of_memory),
            (Death::Exit { code, .. }, Some(Err(_))) => (*code, false),
            (Death::Exit { .. }, None) => {
                return Self::protocol("it said that it ended and went on");
            }
            (Death::Lost(error), _) => return Self::lost(&error.to_string()),
            (_, Some(Err(error))) => return Self::lost(&error.to_string()),
            (_, None) => return Self::protocol("it closed its output and went on"),
        };
        match limit {
            Some(limit) if out_of_memory || (code == KILLED && told != Some(false)) => {
                Self::Memory {
                    limit,
                    certain: out_of_memory || told == Some(true),
                }
            }
            _ => Self::Exit { code, words },
        }
    }

    fn lost(reason: &str) -> Self {
        Self::EngineLost {
            reason: reason.to_owned(),
        }
    }

    fn protocol(what: &str) -> Self {
        Self::Protocol {
            what: what.to_owned(),
        }
    }

    /// The reason in one word, as in `error.type`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::TimeLimit => "timeout",
            Self::Cancelled => "cancelled",
            Self::Memory { .. } => "memory_limit",
            Self::Exit { .. } => "guest_exit",
            Self::Protocol { .. } => "protocol",
            Self::EngineLost { .. } => "engine_lost",
            Self::Reset => "reset",
            Self::Idle(_) => "idle",
            Self::Bug => "bug",
        }
    }

    /// What happened, for the call that was running.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Memory {
                limit,
                certain: true,
            } => format!(
                "killed: memory limit {} reached; variables are lost",
                bytes(*limit)
            ),
            Self::Memory { limit, .. } => format!(
                "killed (exit 137, SIGKILL), probably at the memory limit of {}; variables are lost",
                bytes(*limit)
            ),
            Self::Exit { code, words } => {
                let mut text = format!(
                    "the Python process ended: {}; variables are lost",
                    status(*code)
                );
                if !words.is_empty() {
                    text.push_str("\nits last words: ");
                    text.push_str(words);
                }
                text
            }
            Self::Protocol { what } => format!(
                "the sandbox broke its protocol ({what}) and was killed; variables are lost"
            ),
            Self::EngineLost { reason } => format!(
                "the container engine went away while the code ran; variables are lost\n{reason}"
            ),
            Self::TimeLimit | Self::Cancelled | Self::Reset | Self::Idle(_) | Self::Bug => {
                "the session ended; variables are lost".to_owned()
            }
        }
    }

    /// What the successor's first answer says.
    pub(super) fn note(&self) -> String {
        let previous = match self {
            Self::Reset => return "fresh session, as asked".to_owned(),
            Self::TimeLimit => "was killed after a time limit".to_owned(),
            Self::Cancelled => "was killed after a cancelled call".to_owned(),
            Self::Memory { certain: true, .. } => "was killed at its memory limit".to_owned(),
            Self::Memory { .. } => {
                "was killed with SIGKILL, probably at its memory limit".to_owned()
            }
            Self::Exit { code, .. } => format!("ended: {}", status(*code)),
            Self::Protocol { .. } => "was killed because it broke its protocol".to_owned(),
            Self::EngineLost { .. } => "was lost with its container engine".to_owned(),
            Self::Idle(after) => format!("was closed after {} without use", duration(*after)),
            Self::Bug => "was lost by a fault of the bridge".to_owned(),
        };
        format!("fresh session (the previous one {previous})")
    }

    /// The exit status, where the guest ended by itself.
    pub(super) fn exit_code(&self) -> Option<i64> {
        match self {
            Self::Exit { code, .. } => (*code >= 0).then_some(*code),
            Self::Memory { .. } => Some(KILLED),
            _ => None,
        }
    }
}

/// `exit 3`, `exit 139 (SIGSEGV)`; in words where the engine could not tell.
pub(super) fn status(code: i64) -> String {
    if code < 0 {
        return "nobody knows with which status".to_owned();
    }
    let signal = match code.saturating_sub(128) {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return format!("exit {code}"),
    };
    format!("exit {code} ({signal})")
}

/// `30 s`, `1.5 s`, `30 min`.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds >= 120 && seconds.is_multiple_of(60) {
        format!("{} min", seconds / 60)
    } else if time.subsec_millis() == 0 && seconds > 0 {
        format!("{seconds} s")
    } else {
        let millis = time.subsec_millis();
        let rounded = Duration::new(seconds, millis * 1_000_000);
        format!("{} s", rounded.as_secs_f64())
    }
}

/// `512 MiB`.
fn bytes(count: u64) -> String {
    match count {
        _ if count >= 1 << 30 && count.is_multiple_of(1 << 30) => format!("{} GiB", count >> 30),
        _ if count >= 1 << 20 => format!("{} MiB", count >> 20),
        _ => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_written_for_people() {
        let check = |millis: u64, text: &str| {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        };
        check(30_000, "30 s");
        check(1_500, "1.5 s");
        check(300, "0.3 s");
        check(0, "0 s");
        check(90_000, "90 s");
        check(120_000, "2 min");
        check(125_000, "125 s");
        assert_eq!(bytes(512 << 20), "512 MiB");
        assert_eq!(bytes(2 << 30), "2 GiB");
        assert_eq!(bytes(1000), "1000 bytes");
    }

    #[test]
    fn exit_statuses_name_their_signal() {
        assert_eq!(status(3), "exit 3");
        assert_eq!(status(139), "exit 139 (SIGSEGV)");
        assert_eq!(status(i64::MAX), format!("exit {}", i64::MAX));
        assert_eq!(status(-1), "nobody knows with which status");
    }

    #[test]
    fn what_the_engine_says_counts_more_than_what_the_guest_says() {
        let said = Death::Exit {
            code: 0,
            out_of_memory: Some(false),
        };
        let engine = Exit {
            code: 137,
            out_of_memory: true,
        };
        let ending = Ending::judge(&said, Some(Ok(engine)), Some(1 << 20), String::new());
        let expected = Ending::Memory {
            limit: 1 << 20,
            certain: true,
        };
        assert_eq!(ending, expected);
    }

    #[test]
    fn memory_is_certain_where_the_guest_counted_the_kill_and_not_for_other_ends() {
        let judge = |code, told| {
            let said = Death::Exit {
                code,
                out_of_memory: told,
            };
            let exit = Exit {
                code,
                out_of_memory: false,
            };
            Ending::judge(&said, Some(Ok(exit)), Some(64 << 20), String::new()).message()
        };
        assert_eq!(
            judge(137, Some(true)),
            "killed: memory limit 64 MiB reached; variables are lost"
        );
        assert_eq!(
            judge(137, None),
            "killed (exit 137, SIGKILL), probably at the memory limit of 64 MiB; variables are lost"
        );
        // A child was killed for memory, and then the code ended by itself.
        assert_eq!(
            judge(3, Some(true)),
            "the Python process ended: exit 3; variables are lost"
        );
    }

    #[test]
    fn podman_forgets_the_status_of_a_guest_that_it_removed() {
        let said = Death::Exit {
            code: 134,
            out_of_memory: None,
        };
        let engine = Exit {
            code: -1,
            out_of_memory: false,
        };
        let ending = Ending::judge(&said, Some(Ok(engine)), None, String::new());
        let expected = Ending::Exit {
            code: 134,
            words: String::new(),
        };
        assert_eq!(ending, expected);
    }
}
