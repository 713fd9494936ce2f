//! What each frame of a guest comes to: output, an answer to a question, a request for the broker, an end, or nothing,
//! which is counted.

use super::capture::Capture;
use super::ending::Death;
use super::files::Question;
use super::start::RunningGuest;
use bridge_broker::{GuestError, Outcome, Run};
use bridge_wire::{Event, ExecutionDone, FromGuest, RpcResponse, TO_GUEST_LIMIT};

/// Meaningless frames (unknown types, stale numbers) that one run may hold.
const IGNORED_LIMIT: u32 = 10_000;

/// Answers are not taken from the broker while as many bytes wait for the guest to read them; it then works on no more
/// requests, as many as are unanswered.
pub(super) const ANSWERS_LIMIT: usize = 1 << 20;

/// Said to requests outside of a run.
pub(super) const IDLE: Requests<'static> = Requests::Refused("no run is active");
/// Said to requests after the interrupt.
pub(super) const STOPPING: Requests<'static> = Requests::Refused("the run is being stopped");

/// Who takes requests of the guest.
#[derive(Clone, Copy)]
pub(super) enum Requests<'a> {
    /// The broker, for this run.
    Taken(&'a Run),
    /// Nobody, and why.
    Refused(&'static str),
}

impl RunningGuest {
    /// Takes in one event. The answer to execution `expected` comes back; all that means nothing is counted.
    pub(super) fn hear(
        &mut self,
        event: Event,
        expected: Option<u64>,
        requests: Requests<'_>,
        capture: &mut Capture,
        limit: u64,
    ) -> Result<Option<Box<ExecutionDone>>, Death> {
        let line = match event {
            Event::Line(line) => line,
            Event::Ended => return Err(Death::Ended),
            Event::Lost(error) => return Err(Death::Lost(error)),
            Event::Broken(error) => return Err(Death::Broken(error)),
        };
        match FromGuest::parse(&line).map_err(Death::Broken)? {
            FromGuest::Output(kind, bytes) => capture.push(kind, &bytes, limit),
            FromGuest::Dropped(dropped) => capture.drop_more(*dropped),
            FromGuest::Display { mime, content } => capture.displays.push(&mime, content),
            FromGuest::File { call, piece } => {
                if self.questions.answer(call, piece) {
                    // Read by somebody else's wish: no reason to stop listening.
                    self.idle_from += line.len() as u64;
                } else {
                    self.ignore()?;
                }
            }
            FromGuest::ExecutionDone(done) if Some(done.id) == expected => return Ok(Some(done)),
            FromGuest::Exit {
                code,
                out_of_memory,
            } => {
                return Err(Death::Exit {
                    code,
                    out_of_memory,
                });
            }
            // Their number is not looked at: a task that an earlier run left behind asks in this one.
            FromGuest::Request {
                call,
                method,
                params,
                ..
            } => match (requests, params) {
                (Requests::Taken(run), Some(params)) => run.request(call, &method, params),
                (Requests::Taken(_), None) => self.refuse(
                    call,
                    "TypeError",
                    "the arguments hold text that is no Unicode, or are nested too deeply",
                )?,
                (Requests::Refused(why), _) => self.refuse(call, "MCPError", why)?,
            },
            FromGuest::Cancel { call } => {
                if let Requests::Taken(run) = requests {
                    run.cancel(call);
                }
            }
            FromGuest::Fetch => {
                if !self.known.fetch() {
                    self.ignore()?;
                }
            }
            FromGuest::ProjectFile(piece) => {
                if !self.known.take_piece(piece) {
                    self.ignore()?;
                }
            }
            FromGuest::Collected { id } => {
                if !self.known.take_end(id) {
                    self.ignore()?;
                }
            }
            FromGuest::ExecutionDone(_) | FromGuest::Ready(_) | FromGuest::Unknown => {
                self.ignore()?
            }
        }
        Ok(None)
    }

    /// Asks for a piece of a file.
    pub(super) fn ask(&mut self, question: Question) {
        let mut path = String::new();
        let frame = self.questions.ask(&mut path, question);
        self.link.sender.queue(&frame);
    }

    fn ignore(&mut self) -> Result<(), Death> {
        self.ignored += 1;
        if self.ignored > IGNORED_LIMIT {
            return Err(Death::Flood);
        }
        Ok(())
    }

    /// Refuses a request. A guest that asks without reading gets no more answers.
    fn refuse(&mut self, call: u64, kind: &str, message: &str) -> Result<(), Death> {
        if self.link.sender.unsent() < ANSWERS_LIMIT {
            // A frame of this size is taken.
            let refusal = RpcResponse::refusal(call, kind, message);
            let _ = self.link.sender.queue_bounded(&refusal);
        }
        self.ignore()
    }

    /// Puts an answer behind the frames that wait. One that is too large becomes an error.
    pub(super) fn answer(&mut self, outcome: &Outcome) {
        let call = outcome.call;
        let result = outcome.result.as_ref().map_err(GuestError::to_wire);
        let response = RpcResponse { call, result };
        if let Err(size) = self.link.sender.queue_bounded(&response) {
            let message =
                format!("the result has {size} bytes; at most {TO_GUEST_LIMIT} can be passed on");
            let _ = self
                .link
                .sender
                .queue_bounded(&RpcResponse::refusal(call, "MCPError", &message));
        }
    }
}
