//! Runs that wait for the client to come back with answers, in revisions where a question of a server is the answer to
//! the call. The client calls again with the same arguments, the answers, and the state that it was given.
//!
//! A client may never come back: its user may have given up, of which it tells nobody. So a held run is given up after a
//! while, and soon where another call waits for its session.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::Rejected;
use super::arguments::Arguments;
use super::inbox::Inbox;
use super::progress::Steps;
use bridge_session::{CancelOnDrop, Run};

/// For the client to come back.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Likewise, where another call waits for the same session.
const IN_THE_WAY: Duration = Duration::from_secs(10);

/// A run that has begun, with what its call needs to wait for it.
pub(super) struct Running {
    pub(super) run: Arc<Run>,
    /// Dropping this gives it up, unless it was left running.
    pub(super) _cancel_on_drop: CancelOnDrop,
    /// What it was asked for, which has to be the same when the client comes back.
    pub(super) arguments: Arguments,
    pub(super) inbox: Arc<Inbox>,
    pub(super) steps: Steps,
}

/// The runs of one connection that wait. Each occupies its session, so there are at most as many as sessions.
#[derive(Default)]
pub(super) struct Held {
    runs: Mutex<HashMap<String, Waiting>>,
    next: AtomicU64,
    random: RandomState,
}

struct Waiting {
    run: Running,
    in_the_way: CancellationToken,
    _taken: DropGuard,
}

impl Held {
    /// Keeps the run; returns the state that the client has to come back with.
    pub(super) fn keep(self: &Arc<Self>, run: Running) -> String {
        let (in_the_way, taken) = (CancellationToken::new(), CancellationToken::new());
        let waiting = Waiting {
            run,
            in_the_way: in_the_way.clone(),
            _taken: taken.clone().drop_guard(),
        };
        // Not a secret, but another one each time and in each bridge.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let state = format!("{:016x}", self.random.hash_one(number));
        self.lock().insert(state.clone(), waiting);
        let (held, key) = (Arc::downgrade(self), state.clone());
        tokio::spawn(async move {
            let hurried = async {
                in_the_way.cancelled().await;
                tokio::time::sleep(IN_THE_WAY).await;
            };
            tokio::select! {
                () = taken.cancelled() => return,
                () = hurried => {}
                () = tokio::time::sleep(PATIENCE) => {}
            }
            if let Some(held) = held.upgrade() {
                let given_up = held.lock().remove(&key);
                if given_up.is_some() {
                    tracing::warn!(
                        "the client did not come back with an answer; the run is given up"
                    );
                }
            }
        });
        state
    }

    /// The run that the client comes back to.
    pub(super) fn take(&self, state: &str, arguments: &Arguments) -> Result<Running, Rejected> {
        let refuse = |why: &str| Err(Rejected::Invalid(why.to_owned()));
        match self.lock().entry(state.to_owned()) {
            Entry::Vacant(_) => refuse(
                "no run waits for this answer any more (its requestState is unknown or has expired); call again without it",
            ),
            Entry::Occupied(waiting) if waiting.get().run.arguments != *arguments => {
                refuse("the arguments are not those of the run that waits for this answer")
            }
            Entry::Occupied(waiting) => Ok(waiting.remove().run),
        }
    }

    /// Another call wants this session: a run there whose client does not come back soon is given up.
    pub(super) fn make_way(&self, session: Option<&str>) {
        for waiting in self.lock().values() {
            if waiting.run.arguments.session.as_deref() == session {
                waiting.in_the_way.cancel();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
