//! One execution on a live guest: what it says until it is done, dead or deaf. Also how an idle guest is watched.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::Run;
use super::capture::Capture;
use super::dispatch::{ANSWERS_LIMIT, IDLE, Requests, STOPPING};
use super::ending::Death;
use super::servers::ServerCards;
use super::start::{EXIT_LIMIT, RunningGuest};
use bridge_broker::{self as broker, Outcome, Summary};
use bridge_wire::{ExecuteLimits, ExecutionDone, ToGuest};

/// Bytes of frames to the guest that may wait when it says that it is done: an interrupt that came too late. For more,
/// such as answers that nobody waits for any more, it has a moment to read them.
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
    Done(Box<ExecutionDone>),
    /// The guest is dead or must die.
    Dead(Death),
    /// It did not react to the interrupt that this called for.
    Unresponsive(Stop),
}

/// What is to be executed.
pub(super) struct Execution<'a> {
    /// Its number; no other execution of this session has it.
    pub(super) id: u64,
    /// Python source.
    pub(super) code: &'a str,
    /// Bytes of each stream to keep.
    pub(super) output_bytes: u64,
    /// Files that a process may have open.
    pub(super) open_files: u32,
    /// Bytes of text that the answer may have.
    pub(super) text_bytes: u64,
    /// Time to react to an interrupt.
    pub(super) grace: Duration,
    /// Its servers.
    pub(super) given: &'a ServerCards,
    /// Takes its requests.
    pub(super) requests: broker::Run,
    /// Their answers.
    pub(super) responses: mpsc::UnboundedReceiver<Outcome>,
    /// What became of its calls, once it is over.
    pub(super) calls: Option<Summary>,
}

impl Execution<'_> {
    /// Cancels what is left of its calls, and says what became of all.
    pub(super) fn end(&mut self) -> Summary {
        self.calls.take().unwrap_or_else(|| self.requests.end())
    }

    /// Runs it; its output goes into `run`. `stop` ends it early: the guest is interrupted, and has the grace period to
    /// say that it is done. Also says whether and why it was stopped.
    pub(super) async fn run(
        &mut self,
        live: &mut RunningGuest,
        run: &Run,
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
                open_files: self.open_files,
                text_bytes: self.text_bytes,
            },
            servers: &self.given.cards,
            known: &self.given.known,
            failed: &self.given.failed,
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
                    // Before the guest gives up its calls itself, so that they are known for what they are.
                    self.calls = Some(self.requests.end());
                    live.link.sender.queue(&ToGuest::Interrupt { id: self.id });
                    grace.as_mut().reset(Instant::now() + self.grace);
                }
                () = &mut grace, if stopped.is_some() || unwritable => {
                    break stopped.map_or(Verdict::Dead(Death::Unread), Verdict::Unresponsive);
                }
                result = live.link.sender.flush(), if live.link.sender.is_pending() && !unwritable => {
                    if result.is_err() {
                        unwritable = true;
                        if stopped.is_none() {
                            grace.as_mut().reset(Instant::now() + EXIT_LIMIT);
                        }
                    }
                }
                Some(response) = self.responses.recv(),
                    if live.link.sender.unsent() < ANSWERS_LIMIT && !unwritable =>
                {
                    live.answer(&response);
                    // Those that are there already go out in one write.
                    while live.link.sender.unsent() < ANSWERS_LIMIT
                        && let Ok(response) = self.responses.try_recv()
                    {
                        live.answer(&response);
                    }
                }
                Some(question) = live.questions.next(),
                    if live.link.sender.unsent() < ANSWERS_LIMIT && !unwritable =>
                {
                    live.ask(question);
                }
                read = live.known.read() => live.take_update(read),
                event = live.link.receiver.event() => {
                    let requests = match stopped {
                        None => Requests::Taken(&self.requests),
                        Some(_) => STOPPING,
                    };
                    let heard = run.with_output(|capture| {
                        live.hear(event, Some(self.id), requests, capture, self.output_bytes)
                    });
                    match heard {
                        Ok(None) => {}
                        Ok(Some(done)) => break Verdict::Done(done),
                        Err(death) => break Verdict::Dead(death),
                    }
                }
            }
        };
        self.calls.get_or_insert_with(|| self.requests.end());
        let verdict = match verdict {
            // Waiting frames must not pile up.
            Verdict::Done(done) if live.link.sender.unsent() > UNREAD_LIMIT => {
                match live.drain(run, self.output_bytes).await {
                    Ok(()) => Verdict::Done(done),
                    Err(death) => Verdict::Dead(death),
                }
            }
            verdict => verdict,
        };
        live.idle_from = live.link.receiver.received();
        (verdict, stopped)
    }
}

/// Listens to an idle guest until it dies. What it writes is kept, a little, for the next answer.
pub(super) async fn watch(live: &mut RunningGuest, kept: &mut Capture) -> Death {
    let mut unwritable = false;
    loop {
        let RunningGuest {
            link,
            idle_from,
            questions,
            known,
            ..
        } = &mut *live;
        let heard_enough =
            link.receiver.received() - *idle_from > IDLE_BUDGET && !questions.is_waiting();
        tokio::select! {
            biased;
            // Refusals of requests, and files.
            result = link.sender.flush(), if link.sender.is_pending() && !unwritable => {
                unwritable = result.is_err();
            }
            Some(question) = questions.next(), if !unwritable => live.ask(question),
            read = known.read_when_calm(), if !unwritable => live.take_update(read),
            event = link.receiver.event(), if !heard_enough => {
                if let Err(death) = live.hear(event, None, IDLE, kept, IDLE_OUTPUT) {
                    return death;
                }
            }
            else => std::future::pending::<()>().await,
        }
    }
}

impl RunningGuest {
    /// A guest that is done reads what waits for it, within a time.
    async fn drain(&mut self, run: &Run, limit: u64) -> Result<(), Death> {
        let mut unwritable = false;
        let drained = timeout(EXIT_LIMIT, async {
            loop {
                tokio::select! {
                    biased;
                    result = self.link.sender.flush(), if !unwritable => match result {
                        Ok(()) => return Ok(()),
                        Err(_) => unwritable = true,
                    },
                    event = self.link.receiver.event() => {
                        run.with_output(|capture| self.hear(event, None, IDLE, capture, limit))?;
                    }
                }
            }
        });
        drained.await.unwrap_or(Err(Death::Unread))
    }
}
