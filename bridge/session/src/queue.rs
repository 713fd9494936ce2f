//! The calls that wait for a session: in order, bounded, and withdrawn without a trace when the client gives up. Also knows
//! whether they wait for a run that was left running.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::run::{PendingReply, Run};
use super::{Progress, RunRequest};

/// Calls that may wait in one session, besides the one that runs.
pub(super) const QUEUE_LIMIT: usize = 64;

/// One call and the answer that it is owed.
pub(super) struct Call {
    /// What is asked.
    pub(super) request: RunRequest,
    /// Told of long phases.
    pub(super) progress: Arc<dyn Progress>,
    /// Its run, which is to be ended.
    pub(super) reply: PendingReply,
}

/// Why a call was not taken; it comes back.
pub(super) enum PushError {
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
    holder: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<Call>,
    current: Option<Arc<Run>>,
    closed: bool,
}

impl Queue {
    /// Puts a call at the end.
    pub(super) fn push(&self, call: Call) -> Result<(), PushError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(PushError::Closed(Box::new(call)));
        }
        if waiting.calls.len() >= QUEUE_LIMIT {
            return Err(PushError::Full);
        }
        waiting.calls.push_back(call);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Takes the first call, which is the current one until [`Queue::end_current`]; waits for one. Only the session's own
    /// task may call this.
    pub(super) async fn pop(&self) -> Call {
        loop {
            if let Some(call) = self.take() {
                return call;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Call> {
        let mut waiting = self.lock();
        let call = waiting.calls.pop_front()?;
        let run = call.reply.run();
        waiting.current = Some(Arc::clone(run));
        if run.is_left_running() {
            self.holder.send_replace(Some(run.id().to_owned()));
        }
        Some(call)
    }

    /// The current call is over.
    pub(super) fn end_current(&self) {
        self.lock().current = None;
        self.holder.send_replace(None);
    }

    /// A run was left running; if it is the current one, all others wait for it.
    pub(super) fn note_left_running(&self, run: &Run) {
        let waiting = self.lock();
        if waiting
            .current
            .as_ref()
            .is_some_and(|current| current.id() == run.id())
        {
            self.holder.send_replace(Some(run.id().to_owned()));
        }
    }

    /// The name of the current run where it was left running.
    pub(super) fn holder(&self) -> watch::Receiver<Option<String>> {
        self.holder.subscribe()
    }

    /// The name of the run that this one, which has not begun, waits for, where that was left running.
    pub(super) fn holder_of(&self, run: &Run) -> Option<String> {
        let waiting = self.lock();
        let waits = waiting
            .calls
            .iter()
            .any(|call| call.reply.run().id() == run.id());
        waits.then(|| self.holder.borrow().clone()).flatten()
    }

    /// Cancels the current run where it was left running.
    pub(super) fn cancel_holder(&self) {
        let current = self.lock().current.clone();
        if let Some(run) = current.filter(|run| run.is_left_running()) {
            run.cancel();
        }
    }

    /// Takes a call back; nothing where it has begun or ended.
    pub(super) fn withdraw(&self, run: &Run) -> Option<Call> {
        let mut waiting = self.lock();
        let mut calls = waiting.calls.iter();
        let found = calls.position(|call| call.reply.run().id() == run.id())?;
        waiting.calls.remove(found)
    }

    /// Closes the queue if nothing waits; false where something does.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut waiting = self.lock();
        waiting.closed |= waiting.calls.is_empty();
        waiting.closed
    }

    /// Closes the queue; those that wait end without an answer.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let left = std::mem::take(&mut waiting.calls);
        waiting.current = None;
        drop(waiting);
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
