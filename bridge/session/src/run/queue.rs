//! The calls that wait for a session: in order, bounded, and withdrawn without a trace when the
//! client gives up. The queue also shows which run is the current one.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::PendingReply;
use super::slot::{CurrentRun, Slot, WaitingCall};
use crate::api::{Progress, RunRequest};
use bridge_common::Mutex;

/// Calls that may wait in one session, besides the one that runs.
pub(crate) const QUEUE_LIMIT: usize = 64;

/// A call whose turn has come.
pub(crate) struct Call {
    /// What the call asks for.
    pub(crate) request: RunRequest,
    /// Hears of long phases.
    pub(crate) progress: Arc<dyn Progress>,
    /// Reply that its run waits for.
    pub(crate) reply: PendingReply,
}

/// Why a call was not taken.
pub(crate) enum PushError {
    /// Too many calls wait.
    Full,
    /// The session has just ended; the call comes back.
    Closed(Box<WaitingCall>),
}

/// The waiting calls of one session.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    current: watch::Sender<Option<CurrentRun>>,
}

#[derive(Default)]
struct Waiting {
    replies: VecDeque<PendingReply>,
    closed: bool,
}

impl Waiting {
    /// Forgets calls that were withdrawn; says whether others are left.
    fn prune(&mut self) -> bool {
        self.replies.retain(|reply| reply.slot().is_filled());
        !self.replies.is_empty()
    }
}

impl Queue {
    /// An empty slot, for a run whose call is about to be pushed.
    pub(crate) fn slot(&self) -> Slot {
        Slot::new(self.current.subscribe())
    }

    /// Puts a call at the end, into the slot of the run that waits for `reply`.
    pub(crate) fn push(&self, call: WaitingCall, reply: PendingReply) -> Result<(), PushError> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(PushError::Closed(Box::new(call)));
        }
        waiting.prune();
        if waiting.replies.len() >= QUEUE_LIMIT {
            return Err(PushError::Full);
        }
        reply.slot().fill(call);
        waiting.replies.push_back(reply);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for a call and takes it; its run is the current one until [`Queue::end_current`]. Only
    /// the session's own task may call this.
    pub(crate) async fn pop(&self) -> Call {
        loop {
            if let Some(call) = self.take() {
                return call;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Call> {
        let mut waiting = self.waiting.lock();
        while let Some(reply) = waiting.replies.pop_front() {
            let Some(WaitingCall { request, progress }) = reply.slot().take() else {
                continue;
            };
            self.current.send_replace(Some(reply.as_current()));
            return Some(Call {
                request,
                progress,
                reply,
            });
        }
        None
    }

    /// The current call is over.
    pub(crate) fn end_current(&self) {
        self.current.send_replace(None);
    }

    /// Cancels the current run if it was left running.
    pub(crate) fn cancel_left_running(&self) {
        let current = self.current.borrow();
        if let Some(run) = current.as_ref().filter(|run| run.is_left_running()) {
            run.cancel.cancel();
        }
    }

    /// Closes the queue if nothing waits; false where something does.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let is_empty = !waiting.prune();
        waiting.closed |= is_empty;
        waiting.closed
    }

    /// Closes the queue; calls that wait end without an answer.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        let left = std::mem::take(&mut waiting.replies);
        drop(waiting);
        self.end_current();
        drop(left);
    }
}
