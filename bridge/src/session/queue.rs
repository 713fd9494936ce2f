//! The calls that wait for a session: in order, bounded, and withdrawn without a trace when the client gives up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::{Error, Progress, RunOutcome, RunRequest};

/// Calls that may wait in one session, besides the one that runs.
pub(super) const QUEUE_LIMIT: usize = 64;

/// One call and where its answer goes.
pub(super) struct Call {
    /// What is asked.
    pub(super) request: RunRequest,
    /// Told of long phases.
    pub(super) progress: Arc<dyn Progress>,
    /// The caller's end is dropped when it no longer waits.
    pub(super) reply: oneshot::Sender<Result<RunOutcome, Error>>,
}

/// Names a waiting call.
pub(super) type Ticket = u64;

/// Why a call was not taken; it comes back.
pub(super) enum Refused {
    /// Too many wait.
    Full,
    /// The session has just ended.
    Closed(Box<Call>),
}

/// The waiting calls of one session.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<(Ticket, Call)>,
    next: Ticket,
    closed: bool,
}

impl Queue {
    /// Puts a call at the end.
    pub(super) fn push(&self, call: Call) -> Result<Ticket, Refused> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(Refused::Closed(Box::new(call)));
        }
        if waiting.calls.len() >= QUEUE_LIMIT {
            return Err(Refused::Full);
        }
        let ticket = waiting.next;
        waiting.next += 1;
        waiting.calls.push_back((ticket, call));
        drop(waiting);
        self.arrived.notify_one();
        Ok(ticket)
    }

    /// Takes the first call; waits for one. Only the session's own task may call this.
    pub(super) async fn pop(&self) -> Call {
        loop {
            if let Some((_, call)) = self.lock().calls.pop_front() {
                return call;
            }
            self.arrived.notified().await;
        }
    }

    /// Takes a call back; false where it has begun or ended.
    pub(super) fn withdraw(&self, ticket: Ticket) -> bool {
        let mut waiting = self.lock();
        let found = waiting.calls.iter().position(|(other, _)| *other == ticket);
        found.is_some_and(|index| waiting.calls.remove(index).is_some())
    }

    /// Closes the queue if nothing waits; false where something does.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut waiting = self.lock();
        waiting.closed |= waiting.calls.is_empty();
        waiting.closed
    }

    /// Closes the queue; those that wait get no answer, which their callers see.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.calls.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
