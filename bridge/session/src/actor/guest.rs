//! The actor's guest: how it comes to have one, and how it ends it or finds out why it ended.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::capture::Capture;
use super::super::ending::{Death, Ending};
use super::super::execution::{self, Stop};
use super::super::start::{EXIT_LIMIT, RunningGuest, failure};
use super::super::{LaunchError, Progress};
use super::Actor;
use super::caller::{Caller, START_LIMIT, Waited};

/// For an answer to wait until a killed guest is dead. The kill goes on in any case.
const KILL_LIMIT: Duration = Duration::from_secs(5);

impl Actor {
    /// Ends the guest, if there is one, without waiting for it. A start under way is as fresh as can be.
    pub(super) fn reset(&mut self) {
        if let Some(live) = self.guest.take() {
            live.kill(&self.shared.launcher.tasks);
        }
        self.scope.reset();
        self.idle_output = Capture::default();
        self.loss = Some(Ending::Reset);
    }

    /// Gets a guest: the one under way, the spare, or a new one. Says so if the call is to end before it is there.
    pub(super) async fn start(
        &mut self,
        caller: &mut Caller<'_>,
        progress: Arc<dyn Progress>,
    ) -> Result<Option<Stop>, LaunchError> {
        let older = self.starting.take().or_else(|| self.shared.spare());
        let mut may_be_stale = older.is_some();
        self.starting = older;
        loop {
            let starting = self
                .starting
                .get_or_insert_with(|| self.shared.start(&self.name));
            let waited = caller.wait_for(starting, Arc::clone(&progress)).await;
            starting.release();
            match waited {
                Waited::Stopped(stop) => return Ok(Some(stop)),
                Waited::Stalled => {
                    if let Some(starting) = self.starting.take() {
                        starting.abort();
                    }
                    return Err(failure(format!(
                        "the sandbox did not start within {} s",
                        START_LIMIT.as_secs()
                    )));
                }
                Waited::Finished(result) => {
                    self.starting = None;
                    match (*result).and_then(|live| self.alive(live)) {
                        Ok(mut live) => {
                            if may_be_stale {
                                live.tell().await;
                            }
                            live.questions = self.shared.shelf.open(&self.name);
                            self.guest = Some(live);
                            self.shared.refill();
                            return Ok(None);
                        }
                        // One that was started for another moment may have died or failed since; try once more.
                        Err(_) if may_be_stale => {}
                        Err(error) => return Err(error),
                    }
                    may_be_stale = false;
                }
            }
        }
    }

    /// Looks whether a guest that was started a while ago still lives.
    fn alive(&mut self, mut live: RunningGuest) -> Result<RunningGuest, LaunchError> {
        self.idle_output = Capture::default();
        let death = execution::watch(&mut live, &mut self.idle_output).now_or_never();
        if death.is_none() {
            return Ok(live);
        }
        live.kill(&self.shared.launcher.tasks);
        Err(failure("the sandbox ended right after its start".into()))
    }

    /// Kills the guest and waits until it is dead.
    pub(super) async fn kill(&mut self, ending: Ending) {
        self.loss = Some(ending);
        if let Some(live) = self.guest.take() {
            let kill = live.kill(&self.shared.launcher.tasks);
            if timeout(KILL_LIMIT, kill).await.is_err() {
                tracing::warn!(
                    session.name = self.name.as_str(),
                    "a guest is slow to be killed"
                );
            }
        }
    }

    /// A guest is dead or must die: finds out why, and remembers it.
    pub(super) async fn bury(&mut self, death: Death) -> Ending {
        let tasks = &self.shared.launcher.tasks;
        let (mut exit, mut limit, mut words) = (None, None, String::new());
        if let Some(mut live) = self.guest.take() {
            limit = live.memory_limit;
            words = live.link.receiver.last_words();
            if death.needs_kill() {
                let _ = timeout(KILL_LIMIT, live.kill(tasks)).await;
            } else {
                let (tell, told) = oneshot::channel();
                let closing = self.shared.launcher.closing.clone();
                tasks.spawn(async move {
                    let exit = tokio::select! {
                        exit = timeout(EXIT_LIMIT, live.guest.exit()) => exit.ok(),
                        () = closing.cancelled() => None,
                    };
                    // Nobody may be there to be told, but the kill must be.
                    let _ = tell.send(exit);
                    live.guest.kill().await;
                });
                exit = told.await.ok().flatten();
            }
        }
        let ending = Ending::judge(&death, exit, limit, words);
        tracing::info!(
            session.name = self.name.as_str(),
            reason = ending.kind(),
            ?death,
            "a guest ended"
        );
        self.loss = Some(ending.clone());
        ending
    }
}
