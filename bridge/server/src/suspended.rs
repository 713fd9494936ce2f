//! Runs that are suspended until the client calls again, for protocol revisions in which a server's
//! question is the answer to the call. The client then repeats the call with the same arguments,
//! the answers to the questions, and the `requestState` that it was given.
//!
//! A client may never call again: its user may have given up, and nothing in the protocol says so.
//! So a suspended run is cancelled after [`ANSWER_TIMEOUT`], and after [`CONTENDED_TIMEOUT`] once
//! another call waits for its session.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::Rejected;
use super::arguments::Arguments;
use super::inbox::Inbox;
use super::progress::Steps;
use bridge_common::Mutex;
use bridge_session::{CancelOnDrop, Run};

/// How long the client may take to call again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long it may take once another call waits for the same session.
const CONTENDED_TIMEOUT: Duration = Duration::from_secs(10);

/// A run that has begun, with what its call needs to wait for it.
pub(super) struct Running {
    pub(super) run: Arc<Run>,
    /// Dropping this cancels the run, unless it was left running.
    pub(super) _cancel_on_drop: CancelOnDrop,
    /// Arguments of the call that began the run; the client must repeat them.
    pub(super) arguments: Arguments,
    pub(super) inbox: Arc<Inbox>,
    pub(super) steps: Steps,
}

/// The suspended runs of one connection, by `requestState`. Each occupies its session, so there are
/// never more of them than sessions.
#[derive(Default)]
pub(super) struct SuspendedRuns {
    runs: Mutex<HashMap<String, Suspended>>,
    next: AtomicU64,
    random: RandomState,
}

struct Suspended {
    run: Running,
    /// Fires when another call waits for the session.
    is_contended: CancellationToken,
    /// Ends the timer when the client takes the run.
    _taken: DropGuard,
}

impl SuspendedRuns {
    /// Suspends the run and returns the `requestState` with which the client resumes it.
    pub(super) fn suspend(self: &Arc<Self>, run: Running) -> String {
        let (is_contended, taken) = (CancellationToken::new(), CancellationToken::new());
        let suspended = Suspended {
            run,
            is_contended: is_contended.clone(),
            _taken: taken.clone().drop_guard(),
        };
        // Need not be secret, but must be different each time and in each bridge.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let state = format!("{:016x}", self.random.hash_one(number));
        self.runs.lock().insert(state.clone(), suspended);
        let (runs, key) = (Arc::downgrade(self), state.clone());
        tokio::spawn(async move {
            let contended = async {
                is_contended.cancelled().await;
                tokio::time::sleep(CONTENDED_TIMEOUT).await;
            };
            tokio::select! {
                () = taken.cancelled() => return,
                () = contended => {}
                () = tokio::time::sleep(ANSWER_TIMEOUT) => {}
            }
            if let Some(runs) = runs.upgrade() {
                let expired = runs.runs.lock().remove(&key);
                if expired.is_some() {
                    tracing::warn!("run cancelled: the client did not answer its questions");
                }
            }
        });
        state
    }

    /// Takes the run that the client resumes with `state`.
    pub(super) fn take(&self, state: &str, arguments: &Arguments) -> Result<Running, Rejected> {
        let reject = |why: &str| Err(Rejected::Invalid(why.to_owned()));
        match self.runs.lock().entry(state.to_owned()) {
            Entry::Vacant(_) => reject(
                "no run waits for this answer: its requestState is unknown or has expired; \
                 call again without it",
            ),
            Entry::Occupied(suspended) if suspended.get().run.arguments != *arguments => {
                reject("the arguments differ from those of the run that waits for this answer")
            }
            Entry::Occupied(suspended) => Ok(suspended.remove().run),
        }
    }

    /// Tells the suspended runs of `session` that another call waits for it, which shortens the
    /// time until they are cancelled.
    pub(super) fn yield_session(&self, session: Option<&str>) {
        for suspended in self.runs.lock().values() {
            if suspended.run.arguments.session.as_deref() == session {
                suspended.is_contended.cancel();
            }
        }
    }
}
