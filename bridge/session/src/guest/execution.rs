//! One execution on a running guest: what the guest says until it is done, dead or unresponsive.
//! Also how an idle guest is watched.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::death::Disconnect;
use super::events::EventHandler;
use super::requests::{ANSWERS_LIMIT, IDLE, Requests, STOPPING, answer};
use super::running::RunningGuest;
use super::servers::ServerCards;
use super::start::EXIT_LIMIT;
use crate::run::Run;
use crate::run::capture::Capture;
use crate::run::ending::Stop;
use bridge_broker::{self as broker, Outcome, Summary};
use bridge_wire::{ExecuteLimits, ExecutionDone, ToGuest};

/// Bytes of frames that may wait for the guest when it says that it is done: an interrupt that came
/// too late. Where more wait, such as answers that nobody needs any more, the guest has a moment to
/// read them.
const UNREAD_LIMIT: usize = 1 << 10;

/// What an idle guest may send before the bridge stops listening until the next run. Its writers
/// then block, as on any full pipe.
const IDLE_BUDGET: u64 = 1 << 20;

/// Bytes of each stream that are kept from between two runs.
const IDLE_OUTPUT: u64 = 64 << 10;

/// How an execution came to its end.
#[derive(Debug)]
pub(crate) enum ExecutionEnd {
    /// The guest says that the execution is done.
    Reported(Box<ExecutionDone>),
    /// The guest is dead or must die.
    Dead(Disconnect),
    /// The guest did not react to the interrupt that this called for.
    Unresponsive(Stop),
}

/// What is to be executed.
pub(crate) struct Execution<'a> {
    /// Number of the execution; no other one of this session has it.
    pub(crate) id: u64,
    /// Python source to run.
    pub(crate) code: &'a str,
    /// Bytes of each stream that are kept.
    pub(crate) output_bytes: u64,
    /// Files that a process may have open.
    pub(crate) open_files: u32,
    /// Bytes of text that the answer may have.
    pub(crate) text_bytes: u64,
    /// Time that the code has to react to an interrupt.
    pub(crate) grace: Duration,
    /// What the guest is given about servers.
    pub(crate) given: &'a ServerCards,
    /// Takes requests of the code.
    pub(crate) requests: broker::Run,
    /// What becomes of the requests.
    pub(crate) outcomes: mpsc::UnboundedReceiver<Outcome>,
    /// What became of the tool calls, once the execution is over.
    pub(crate) calls: Option<Summary>,
}

impl Execution<'_> {
    /// Cancels tool calls that are left, and says what became of all of them.
    pub(crate) fn end(&mut self) -> Summary {
        self.calls.take().unwrap_or_else(|| self.requests.end())
    }

    /// Runs the code; its output goes into `run`. `stop` ends it early: the guest is interrupted,
    /// and has the grace period to say that it is done. Also returns whether and why the code was
    /// stopped.
    pub(crate) async fn run(
        &mut self,
        guest: &mut RunningGuest,
        run: &Run,
        stop: impl Future<Output = Stop>,
    ) -> (ExecutionEnd, Option<Stop>) {
        guest.ignored = 0;
        guest.cells += 1;
        guest.link.sender.queue(&ToGuest::Execute {
            id: self.id,
            cell: guest.cells,
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
        // A guest that has closed its input is most likely dying; what it still says is taken in,
        // but not for long.
        let mut unwritable = false;
        let grace = sleep_until(Instant::now());
        tokio::pin!(stop, grace);
        let end = loop {
            // In this order, so that a flood of output can delay neither the limit nor the kill.
            tokio::select! {
                biased;
                why = &mut stop, if stopped.is_none() => {
                    stopped = Some(why);
                    // Before the guest gives up its calls itself, so that they are known for what
                    // they are.
                    self.calls = Some(self.requests.end());
                    guest.link.sender.queue(&ToGuest::Interrupt { id: self.id });
                    grace.as_mut().reset(Instant::now() + self.grace);
                }
                () = &mut grace, if stopped.is_some() || unwritable => {
                    break stopped.map_or(ExecutionEnd::Dead(Disconnect::Unread), ExecutionEnd::Unresponsive);
                }
                result = guest.link.sender.flush(), if guest.link.sender.is_pending() && !unwritable => {
                    if result.is_err() {
                        unwritable = true;
                        if stopped.is_none() {
                            grace.as_mut().reset(Instant::now() + EXIT_LIMIT);
                        }
                    }
                }
                Some(outcome) = self.outcomes.recv(),
                    if guest.link.sender.unsent() < ANSWERS_LIMIT && !unwritable =>
                {
                    answer(&mut guest.link, &outcome);
                    // Those that are there already go out in one write.
                    while guest.link.sender.unsent() < ANSWERS_LIMIT
                        && let Ok(outcome) = self.outcomes.try_recv()
                    {
                        answer(&mut guest.link, &outcome);
                    }
                }
                Some(question) = guest.questions.next(),
                    if guest.link.sender.unsent() < ANSWERS_LIMIT && !unwritable =>
                {
                    guest.questions.request(&mut guest.link, question);
                }
                read = guest.sync.read() => guest.sync.take_update(&mut guest.link, read),
                event = guest.link.receiver.event() => {
                    let requests = match stopped {
                        None => Requests::Taken(&self.requests),
                        Some(_) => STOPPING,
                    };
                    let handled = run.with_output(|capture| {
                        let mut handler = EventHandler {
                            expected: Some(self.id),
                            requests,
                            capture,
                            limit: self.output_bytes,
                        };
                        handler.handle_event(guest, event)
                    });
                    match handled {
                        Ok(None) => {}
                        Ok(Some(done)) => break ExecutionEnd::Reported(done),
                        Err(disconnect) => break ExecutionEnd::Dead(disconnect),
                    }
                }
            }
        };
        self.calls.get_or_insert_with(|| self.requests.end());
        let end = match end {
            // Waiting frames must not pile up.
            ExecutionEnd::Reported(done) if guest.link.sender.unsent() > UNREAD_LIMIT => {
                match drain(guest, run, self.output_bytes).await {
                    Ok(()) => ExecutionEnd::Reported(done),
                    Err(disconnect) => ExecutionEnd::Dead(disconnect),
                }
            }
            end => end,
        };
        guest.idle_from = guest.link.receiver.received();
        (end, stopped)
    }
}

/// Listens to an idle guest until it goes away. A little of what it writes is kept for the next
/// answer.
pub(crate) async fn watch(guest: &mut RunningGuest, kept: &mut Capture) -> Disconnect {
    let mut unwritable = false;
    loop {
        let RunningGuest {
            link,
            idle_from,
            questions,
            sync,
            ..
        } = &mut *guest;
        let heard_enough =
            link.receiver.received() - *idle_from > IDLE_BUDGET && !questions.is_waiting();
        tokio::select! {
            biased;
            // Refusals of requests, and files.
            result = link.sender.flush(), if link.sender.is_pending() && !unwritable => {
                unwritable = result.is_err();
            }
            Some(question) = questions.next(), if !unwritable => questions.request(link, question),
            read = sync.read_when_calm(), if !unwritable => sync.take_update(link, read),
            event = link.receiver.event(), if !heard_enough => {
                let mut handler = EventHandler {
                    expected: None,
                    requests: IDLE,
                    capture: &mut *kept,
                    limit: IDLE_OUTPUT,
                };
                if let Err(disconnect) = handler.handle_event(guest, event) {
                    return disconnect;
                }
            }
            else => std::future::pending::<()>().await,
        }
    }
}

/// Lets a guest that is done read what waits for it, within a time.
async fn drain(guest: &mut RunningGuest, run: &Run, limit: u64) -> Result<(), Disconnect> {
    let mut unwritable = false;
    let drained = timeout(EXIT_LIMIT, async {
        loop {
            let RunningGuest { link, .. } = &mut *guest;
            let event = tokio::select! {
                biased;
                result = link.sender.flush(), if !unwritable => {
                    if result.is_ok() {
                        return Ok(());
                    }
                    unwritable = true;
                    continue;
                }
                event = link.receiver.event() => event,
            };
            run.with_output(|capture| {
                let mut handler = EventHandler {
                    expected: None,
                    requests: IDLE,
                    capture,
                    limit,
                };
                handler.handle_event(guest, event)
            })?;
        }
    });
    drained.await.unwrap_or(Err(Disconnect::Unread))
}
