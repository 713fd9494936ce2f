//! One execution on a live guest: what it says until it is done, dead or deaf. Also how an idle guest is watched.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::capture::Capture;
use super::ending::Death;
use super::start::{EXIT_LIMIT, Live};
use crate::guest::{Done, Event, ExecuteLimits, FromGuest, ToGuest};

/// Meaningless frames (unknown types, stale numbers) that one run may hold.
const IGNORED_LIMIT: u32 = 10_000;

/// Bytes of frames to the guest that may wait when it says that it is done: an interrupt that came too late.
const UNREAD_LIMIT: usize = 1 << 10;

/// What an idle guest may send before the bridge stops listening until the next run. Its writers then block, as on any
/// full pipe.
const IDLE_BUDGET: u64 = 1 << 20;

/// Of each stream, what is kept from between two runs.
const IDLE_OUTPUT: u64 = 64 << 10;

/// Why an execution is to end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The time limit was reached.
    Timeout,
    /// The client gave up.
    Cancelled,
}

/// How an execution came to its end.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The guest says so.
    Done(Box<Done>),
    /// The guest is dead or must die.
    Dead(Death),
    /// It did not react to the interrupt that this called for.
    Deaf(Stop),
}

/// What is to be executed.
pub(super) struct Execution<'a> {
    /// Its number; no other execution of this session has it.
    pub(super) id: u64,
    /// Python source.
    pub(super) code: &'a str,
    /// Bytes of each stream to keep.
    pub(super) output_bytes: u64,
    /// Time to react to an interrupt.
    pub(super) grace: Duration,
}

impl Execution<'_> {
    /// Runs it. `stop` ends it early: the guest is interrupted, and has the grace period to say that it is done. Also
    /// says whether and why it was stopped.
    pub(super) async fn run(
        &self,
        live: &mut Live,
        capture: &mut Capture,
        stop: impl Future<Output = Stop>,
    ) -> (Verdict, Option<Stop>) {
        live.ignored = 0;
        live.cells += 1;
        live.link.sender.queue(&ToGuest::Execute {
            id: self.id,
            cell: live.cells,
            code: self.code,
            limits: ExecuteLimits {
                output_bytes: self.output_bytes,
            },
        });
        let mut stopped = None;
        // A guest that has closed its input is most likely dying; what it still says is heard, but not for long.
        let mut unwritable = false;
        let grace = sleep_until(Instant::now());
        tokio::pin!(stop, grace);
        let verdict = loop {
            // In this order, so that a flood of output can delay neither the limit nor the kill.
            tokio::select! {
                biased;
                why = &mut stop, if stopped.is_none() => {
                    stopped = Some(why);
                    live.link.sender.queue(&ToGuest::Interrupt { id: self.id });
                    grace.as_mut().reset(Instant::now() + self.grace);
                }
                () = &mut grace, if stopped.is_some() || unwritable => {
                    break stopped.map_or(Verdict::Dead(Death::Unread), Verdict::Deaf);
                }
                result = live.link.sender.flush(), if live.link.sender.is_pending() && !unwritable => {
                    if result.is_err() {
                        unwritable = true;
                        if stopped.is_none() {
                            grace.as_mut().reset(Instant::now() + EXIT_LIMIT);
                        }
                    }
                }
                event = live.link.receiver.event() => {
                    match live.hear(event, Some(self.id), capture, self.output_bytes) {
                        Ok(None) => {}
                        // An honest answer to what was not read there cannot be; waiting frames must not pile up.
                        Ok(Some(_)) if live.link.sender.unsent() > UNREAD_LIMIT => {
                            break Verdict::Dead(Death::Unread);
                        }
                        Ok(Some(done)) => break Verdict::Done(done),
                        Err(death) => break Verdict::Dead(death),
                    }
                }
            }
        };
        live.idle_from = live.link.receiver.received();
        (verdict, stopped)
    }
}

/// Listens to an idle guest until it dies. What it writes is kept, a little, for the next answer.
pub(super) async fn watch(live: &mut Live, kept: &mut Capture) -> Death {
    loop {
        if live.link.receiver.received() - live.idle_from > IDLE_BUDGET {
            std::future::pending::<()>().await;
        }
        let event = live.link.receiver.event().await;
        if let Err(death) = live.hear(event, None, kept, IDLE_OUTPUT) {
            return death;
        }
    }
}

impl Live {
    /// Takes in one event. The answer to execution `expected` comes back; all that means nothing is counted.
    fn hear(
        &mut self,
        event: Event,
        expected: Option<u64>,
        capture: &mut Capture,
        limit: u64,
    ) -> Result<Option<Box<Done>>, Death> {
        let line = match event {
            Event::Line(line) => line,
            Event::Ended => return Err(Death::Ended),
            Event::Lost(error) => return Err(Death::Lost(error)),
            Event::Broken(error) => return Err(Death::Broken(error)),
        };
        match FromGuest::parse(&line).map_err(Death::Broken)? {
            FromGuest::Output(kind, bytes) => capture.push(kind, &bytes, limit),
            FromGuest::Dropped { stdout, stderr } => capture.drop_more(stdout, stderr),
            FromGuest::Done(done) if Some(done.id) == expected => return Ok(Some(done)),
            FromGuest::Exit {
                code,
                out_of_memory,
            } => {
                return Err(Death::Exit {
                    code,
                    out_of_memory,
                });
            }
            FromGuest::Done(_) | FromGuest::Ready(_) | FromGuest::Unknown => {
                self.ignored += 1;
                if self.ignored > IGNORED_LIMIT {
                    return Err(Death::Flood);
                }
            }
        }
        Ok(None)
    }
}
