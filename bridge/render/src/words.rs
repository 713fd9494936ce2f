//! The words for how a run ended, and for the facts that are told beforehand. Nothing else in the
//! house has words for these.

use std::time::Duration;

use bridge_common::human::{duration, size};
use bridge_session::{
    Breach, Death, Ending, ExitStatus, Loss, NotKept, Note, Obstacle, ProjectsNote, Reaction, Stop,
};

/// What stopped a run, or kept it from starting; `None` where the code's own exception or exit says
/// it all. `session_goes_on` says whether a later call can use the variables.
pub(crate) fn message(ending: &Ending, timeout: Duration, session_goes_on: bool) -> Option<String> {
    let kept = if session_goes_on {
        "; variables are kept"
    } else {
        ""
    };
    Some(match ending {
        Ending::Stopped { by, reaction } => {
            let stopped = stopped(*by, timeout);
            match reaction {
                Reaction::Interrupted { place: Some(place) } => {
                    format!("{stopped} in {place}{kept}")
                }
                Reaction::Interrupted { place: None } => format!("{stopped}{kept}"),
                Reaction::Finished { .. } => {
                    format!("{stopped}: the code handled the interrupt itself and ended{kept}")
                }
                Reaction::Killed { grace } => format!(
                    "{stopped}: did not react within {} and was killed; variables are lost; a fresh session starts with \
                     the next call",
                    duration(*grace)
                ),
            }
        }
        Ending::Died {
            death,
            stopped: None,
        } => died(death),
        Ending::Died {
            death,
            stopped: Some(by),
        } => format!("{}; {}", stopped(*by, timeout), died(death)),
        Ending::NotStarted { obstacle, .. } => not_started(obstacle, timeout),
        Ending::Success { .. }
        | Ending::Raised { .. }
        | Ending::Exit { .. }
        | Ending::Failed
        | Ending::Running => return None,
    })
}

fn stopped(by: Stop, timeout: Duration) -> String {
    match by {
        Stop::TimeLimit => format!("stopped after {}", duration(timeout)),
        Stop::Cancelled => "cancelled".to_owned(),
    }
}

fn died(death: &Death) -> String {
    match death {
        Death::Memory {
            limit,
            certain: true,
        } => format!(
            "killed: memory limit {} reached; variables are lost",
            size(*limit)
        ),
        Death::Memory { limit, .. } => format!(
            "killed ({}, SIGKILL), probably at the memory limit of {}; variables are lost",
            format_args!("exit {}", ExitStatus::KILLED.0),
            size(*limit)
        ),
        Death::Exit { status, last_words } => {
            let mut text = format!("the Python process ended: {status}; variables are lost");
            if !last_words.is_empty() {
                text.push_str("\nits last words: ");
                text.push_str(last_words);
            }
            text
        }
        Death::Protocol(breach) => format!(
            "the sandbox broke its protocol ({}) and was killed; variables are lost",
            broke(breach)
        ),
        Death::EngineLost { reason } => format!(
            "the container engine went away while the code ran; variables are lost\n{reason}"
        ),
    }
}

fn broke(breach: &Breach) -> &str {
    match breach {
        Breach::Malformed(what) => what,
        Breach::Flood => "a flood of meaningless frames",
        Breach::Unread => "it stopped reading its input",
        Breach::WentOnAfterExit => "it announced its end but kept running",
        Breach::WentOnWithoutOutput => "it closed its output and went on",
    }
}

fn not_started(obstacle: &Obstacle, timeout: Duration) -> String {
    match obstacle {
        Obstacle::Withdrawn => "cancelled before it began; nothing was run".to_owned(),
        Obstacle::HeldUp { behind } => format!(
            "not started within {}: run {behind:?} of this session is still running; wait for it with run={behind:?}, end it \
             with cancel, or name another session",
            duration(timeout)
        ),
        Obstacle::SandboxStarting(by) => format!(
            "{}: the sandbox was still starting, nothing was run; the next call uses it",
            stopped(*by, timeout)
        ),
        Obstacle::TimeSpentOnStart => format!(
            "{}: all of the time went into starting the sandbox, nothing was run; the next call uses it",
            stopped(Stop::TimeLimit, timeout)
        ),
        Obstacle::ServersStarting { by, servers } => {
            let which = match servers.as_slice() {
                [] => "the session's servers were".to_owned(),
                [one] => format!("server {one:?} was"),
                several => format!("servers {} were", several.join(", ")),
            };
            format!(
                "{}: {which} still starting, nothing was run; they keep starting, so call again",
                stopped(*by, timeout)
            )
        }
    }
}

/// All notes in one line; `None` where there are none.
pub(crate) fn notes(notes: &[Note]) -> Option<String> {
    let words: Vec<String> = notes.iter().map(note).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn note(note: &Note) -> String {
    match note {
        Note::FreshSession(loss) => fresh_session(loss),
        Note::ServerFailed(why) => why.clone(),
        Note::MoreServersFailed(count) => format!("{count} more servers failed"),
        Note::MoreFiles(count) => format!(
            "{count} more new files in /workspace/out are not listed; many are better packed into one"
        ),
        Note::Projects(note) => projects(note),
        Note::SandboxEndedAfterRun => {
            "the sandbox ended right after this run; what it left below /projects is not kept"
                .to_owned()
        }
        Note::WaitsBehind(run) => format!("waits for run {run:?} of the same session"),
    }
}

fn projects(note: &ProjectsNote) -> String {
    let not_kept = "what this run left below /projects is not kept";
    match note {
        ProjectsNote::Store(words) => words.clone(),
        ProjectsNote::MoreNotKept(count) => {
            format!("{count} more files below /projects are not kept")
        }
        ProjectsNote::NotKept(NotKept::NotSent) => {
            format!("{not_kept}: the sandbox did not send it in time")
        }
        ProjectsNote::NotKept(NotKept::ShuttingDown) => {
            format!("{not_kept}: the bridge is shutting down")
        }
        ProjectsNote::NotKept(NotKept::Fault) => {
            format!("{not_kept}: an internal error of the bridge")
        }
        ProjectsNote::NotKept(NotKept::Store(why)) => format!("{not_kept}: {why}"),
        ProjectsNote::DoesNotFit => {
            "some saved data does not fit into the sandbox and was left out".to_owned()
        }
        ProjectsNote::NotRead => {
            "saved data could not be loaded into the sandbox: an internal error of the bridge"
                .to_owned()
        }
    }
}

fn fresh_session(loss: &Loss) -> String {
    let previous = match loss {
        Loss::Reset => return "fresh session, as asked".to_owned(),
        Loss::Stopped(Stop::TimeLimit) => "was killed after a time limit".to_owned(),
        Loss::Stopped(Stop::Cancelled) => "was killed after a cancelled call".to_owned(),
        Loss::Died(Death::Memory { certain: true, .. }) => {
            "was killed at its memory limit".to_owned()
        }
        Loss::Died(Death::Memory { .. }) => {
            "was killed with SIGKILL, probably at its memory limit".to_owned()
        }
        Loss::Died(Death::Exit { status, .. }) => format!("ended: {status}"),
        Loss::Died(Death::Protocol(_)) => "was killed because it broke its protocol".to_owned(),
        Loss::Died(Death::EngineLost { .. }) => "was lost with its container engine".to_owned(),
        Loss::Idle(after) => format!("was closed after {} without use", duration(*after)),
        Loss::Bug => "was lost by an internal error of the bridge".to_owned(),
    };
    format!("fresh session (the previous one {previous})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_say_what_is_certain() {
        let killed = |certain| {
            died(&Death::Memory {
                limit: 64 << 20,
                certain,
            })
        };
        assert_eq!(
            killed(true),
            "killed: memory limit 64 MiB reached; variables are lost"
        );
        assert_eq!(
            killed(false),
            "killed (exit 137, SIGKILL), probably at the memory limit of 64 MiB; variables are lost"
        );
        let ended = Death::Exit {
            status: ExitStatus(3),
            last_words: String::new(),
        };
        assert_eq!(
            died(&ended),
            "the Python process ended: exit 3; variables are lost"
        );
    }
}
