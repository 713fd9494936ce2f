//! The slot in which a call waits for its session, as the call's run sees it: the run can take the
//! call back, and can see behind which other run it waits. The queue owns runs; a run owns no more
//! of the queue than this.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::api::{Progress, RunRequest};
use bridge_common::Mutex;

/// What waits in a slot.
pub(crate) struct WaitingCall {
    /// What the call asks for.
    pub(crate) request: RunRequest,
    /// Hears of long phases.
    pub(crate) progress: Arc<dyn Progress>,
}

/// The run that a session is working on, as those see it that wait behind it.
#[derive(Clone)]
pub(crate) struct CurrentRun {
    pub(crate) id: String,
    pub(crate) left_running: watch::Receiver<bool>,
    pub(crate) cancel: CancellationToken,
}

impl CurrentRun {
    /// Whether the run was left running.
    pub(crate) fn is_left_running(&self) -> bool {
        *self.left_running.borrow()
    }
}

/// A call's slot. It is empty before the call is queued, and once the call has begun or was
/// withdrawn.
#[derive(Clone)]
pub(crate) struct Slot {
    call: Arc<Mutex<Option<WaitingCall>>>,
    current: watch::Receiver<Option<CurrentRun>>,
}

impl Slot {
    /// An empty slot of a session whose current run shows in `current`.
    pub(crate) fn new(current: watch::Receiver<Option<CurrentRun>>) -> Self {
        Self {
            call: Arc::default(),
            current,
        }
    }

    /// Puts a call into the slot.
    pub(crate) fn fill(&self, call: WaitingCall) {
        *self.call.lock() = Some(call);
    }

    /// Takes the call, to begin it or to withdraw it; `None` where somebody else was first.
    pub(crate) fn take(&self) -> Option<WaitingCall> {
        self.call.lock().take()
    }

    /// Whether a call waits in the slot.
    pub(crate) fn is_filled(&self) -> bool {
        self.call.lock().is_some()
    }

    /// Name of the run that was left running and that the call waits behind.
    pub(crate) fn blocker(&self) -> Option<String> {
        let current = self.current.borrow();
        let blocker = current.as_ref().filter(|run| run.is_left_running());
        blocker
            .filter(|_| self.is_filled())
            .map(|run| run.id.clone())
    }

    /// Waits until a run that was left running has been the current one for `limit` without a
    /// break; returns its name.
    pub(crate) async fn blocked_for(&self, limit: Duration) -> String {
        let mut current = self.current.clone();
        loop {
            let other = current.borrow_and_update().clone();
            let change = match other {
                None => current.changed().await,
                Some(other) if other.is_left_running() => tokio::select! {
                    () = sleep(limit) => return other.id,
                    change = current.changed() => change,
                },
                Some(mut other) => tokio::select! {
                    change = current.changed() => change,
                    Ok(_) = other.left_running.wait_for(|left| *left) => Ok(()),
                },
            };
            if change.is_err() {
                // The session has ended.
                pending::<()>().await;
            }
        }
    }
}
