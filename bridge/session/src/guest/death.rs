//! How a guest ended: what the session's task saw, and what that and the engine's word come to.

use crate::run::ending::{Breach, Death};
use crate::run::exit_status::ExitStatus;
use bridge_engine::{self as engine, Exit};
use bridge_wire::{self as wire, ConnectionLost};

/// What the session's task saw when its guest went away.
#[derive(Debug)]
pub(crate) enum Disconnect {
    /// The guest's `exit` frame. User code can forge it; what the engine says counts more.
    Exit {
        /// Status that the guest is about to end with.
        code: i64,
        /// Whether the guest's kernel killed a process for memory, where the guest can tell.
        out_of_memory: Option<bool>,
    },
    /// The guest's output ended.
    Ended,
    /// The connection to the guest broke.
    Lost(ConnectionLost),
    /// The guest broke the protocol and must be killed.
    Broken(wire::Error),
    /// The guest sent meaningless frames without end and must be killed.
    Flood,
    /// The guest does not read what it is sent and must be killed.
    Unread,
}

impl Disconnect {
    /// Whether the guest is still alive.
    pub(crate) fn needs_kill(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Flood | Self::Unread)
    }
}

/// What is known of a guest besides what its frames said.
pub(crate) struct Evidence {
    /// What the engine says of its end; `None` where the guest goes on living.
    pub(crate) exit: Option<Result<Exit, engine::Error>>,
    /// Memory limit in bytes.
    pub(crate) memory_limit: Option<u64>,
    /// Last words on the container's standard error.
    pub(crate) last_words: String,
}

/// Tells how a guest died from what was seen and what else is known.
pub(crate) fn classify(seen: &Disconnect, evidence: Evidence) -> Death {
    let Evidence {
        exit,
        memory_limit,
        last_words,
    } = evidence;
    let told = match seen {
        Disconnect::Broken(error) => {
            return Death::Protocol(Breach::Malformed(error.to_string()));
        }
        Disconnect::Flood => return Death::Protocol(Breach::Flood),
        Disconnect::Unread => return Death::Protocol(Breach::Unread),
        Disconnect::Exit { out_of_memory, .. } => *out_of_memory,
        Disconnect::Ended | Disconnect::Lost(_) => None,
    };
    let (code, out_of_memory) = match (seen, exit) {
        // The engine no longer knows the status.
        (Disconnect::Exit { code, .. }, Some(Ok(exit))) if exit.code < 0 => {
            (*code, exit.out_of_memory)
        }
        (_, Some(Ok(exit))) => (exit.code, exit.out_of_memory),
        (Disconnect::Exit { code, .. }, Some(Err(_))) => (*code, false),
        (Disconnect::Exit { .. }, None) => return Death::Protocol(Breach::WentOnAfterExit),
        (Disconnect::Lost(error), _) => return lost(error.to_string()),
        (_, Some(Err(error))) => return lost(error.to_string()),
        (_, None) => return Death::Protocol(Breach::WentOnWithoutOutput),
    };
    let status = ExitStatus(code);
    match memory_limit {
        Some(limit) if out_of_memory || (status == ExitStatus::KILLED && told != Some(false)) => {
            Death::Memory {
                limit,
                certain: out_of_memory || told == Some(true),
            }
        }
        _ => Death::Exit { status, last_words },
    }
}

fn lost(reason: String) -> Death {
    Death::EngineLost { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(seen: &Disconnect, engine: Exit, memory_limit: Option<u64>) -> Death {
        let evidence = Evidence {
            exit: Some(Ok(engine)),
            memory_limit,
            last_words: String::new(),
        };
        classify(seen, evidence)
    }

    #[test]
    fn the_engine_counts_more_than_the_guest() {
        let said = Disconnect::Exit {
            code: 0,
            out_of_memory: Some(false),
        };
        let engine = Exit {
            code: 137,
            out_of_memory: true,
        };
        let expected = Death::Memory {
            limit: 1 << 20,
            certain: true,
        };
        assert_eq!(classified(&said, engine, Some(1 << 20)), expected);
    }

    #[test]
    fn memory_is_certain_only_where_the_guest_counted_the_kill() {
        let classified = |code, told| {
            let said = Disconnect::Exit {
                code,
                out_of_memory: told,
            };
            let engine = Exit {
                code,
                out_of_memory: false,
            };
            classified(&said, engine, Some(64 << 20))
        };
        let killed = |certain| Death::Memory {
            limit: 64 << 20,
            certain,
        };
        assert_eq!(classified(137, Some(true)), killed(true));
        assert_eq!(classified(137, None), killed(false));
        // A child was killed for memory, and then the code ended by itself.
        let ended = Death::Exit {
            status: ExitStatus(3),
            last_words: String::new(),
        };
        assert_eq!(classified(3, Some(true)), ended);
    }

    #[test]
    fn the_guest_tells_a_status_that_the_engine_has_forgotten() {
        let said = Disconnect::Exit {
            code: 134,
            out_of_memory: None,
        };
        let engine = Exit {
            code: -1,
            out_of_memory: false,
        };
        let expected = Death::Exit {
            status: ExitStatus(134),
            last_words: String::new(),
        };
        assert_eq!(classified(&said, engine, None), expected);
    }
}
