//! What each frame of a guest comes to: output, an answer to a question, a request for the broker,
//! an end, or nothing, which is counted.

use super::death::Disconnect;
use super::requests::{self, Requests};
use super::running::RunningGuest;
use crate::run::capture::Capture;
use bridge_wire::{Event, ExecutionDone, FromGuest};

/// Meaningless frames (unknown types, stale numbers) that one run may hold.
const IGNORED_LIMIT: u32 = 10_000;

/// Takes in what a guest sends, for as long as nothing changes about who wants it.
pub(crate) struct EventHandler<'a> {
    /// Number of the execution whose end is awaited.
    pub(crate) expected: Option<u64>,
    /// Who takes requests of the guest.
    pub(crate) requests: Requests<'a>,
    /// Where output of the code goes.
    pub(crate) capture: &'a mut Capture,
    /// Bytes of each stream that are kept.
    pub(crate) limit: u64,
}

impl EventHandler<'_> {
    /// Takes in one event. Returns the end of the execution that is awaited; all that means nothing
    /// is counted.
    pub(crate) fn handle_event(
        &mut self,
        guest: &mut RunningGuest,
        event: Event,
    ) -> Result<Option<Box<ExecutionDone>>, Disconnect> {
        let line = match event {
            Event::Line(line) => line,
            Event::Ended => return Err(Disconnect::Ended),
            Event::Lost(error) => return Err(Disconnect::Lost(error)),
            Event::Broken(error) => return Err(Disconnect::Broken(error)),
        };
        let frame = FromGuest::parse(&line).map_err(Disconnect::Broken)?;
        let has_meaning = match frame {
            FromGuest::ExecutionDone(done) if Some(done.id) == self.expected => {
                return Ok(Some(done));
            }
            FromGuest::Exit {
                code,
                out_of_memory,
            } => {
                return Err(Disconnect::Exit {
                    code,
                    out_of_memory,
                });
            }
            FromGuest::Output(kind, bytes) => {
                self.capture.push(kind, &bytes, self.limit);
                true
            }
            FromGuest::Dropped(dropped) => {
                self.capture.drop_more(*dropped);
                true
            }
            FromGuest::Display { mime, content } => {
                self.capture.displays.push(&mime, content);
                true
            }
            FromGuest::File { call, piece } => {
                let was_asked = guest.questions.answer(call, piece);
                if was_asked {
                    // A client wanted it, so that it does not count against the guest.
                    guest.idle_from += line.len() as u64;
                }
                was_asked
            }
            // The number of the execution is not looked at: a task that an earlier run left behind
            // asks in this one.
            FromGuest::Request {
                call,
                method,
                params,
                ..
            } => match (self.requests, params) {
                (Requests::Taken(run), Some(params)) => {
                    run.request(call, &method, params);
                    true
                }
                (Requests::Taken(_), None) => {
                    let message =
                        "the arguments hold text that is not Unicode, or are nested too deeply";
                    requests::refuse(&mut guest.link, call, "TypeError", message);
                    false
                }
                (Requests::Refused(why), _) => {
                    requests::refuse(&mut guest.link, call, "MCPError", why);
                    false
                }
            },
            FromGuest::Cancel { call } => {
                if let Requests::Taken(run) = self.requests {
                    run.cancel(call);
                }
                true
            }
            FromGuest::Fetch => guest.sync.fetch(),
            FromGuest::ProjectFile(piece) => guest.sync.take_piece(piece),
            FromGuest::Collected { id } => guest.sync.take_end(id),
            FromGuest::ExecutionDone(_) | FromGuest::Ready(_) | FromGuest::Unknown => false,
        };
        if !has_meaning {
            guest.ignored += 1;
            if guest.ignored > IGNORED_LIMIT {
                return Err(Disconnect::Flood);
            }
        }
        Ok(None)
    }
}
