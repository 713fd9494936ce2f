//! The actor's guest: how it comes to have one, and how it ends it or finds out why it ended.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Actor;
use super::call::{ActiveCall, START_LIMIT, Waited};
use crate::api::{LaunchError, Progress};
use crate::guest::death::{Disconnect, Evidence, classify};
use crate::guest::execution;
use crate::guest::running::RunningGuest;
use crate::guest::start::{EXIT_LIMIT, failure};
use crate::run::capture::Capture;
use crate::run::ending::{Death, Stop};
use crate::run::notes::Loss;

/// Time that an answer waits until a killed guest is dead. The kill goes on in any case.
const KILL_LIMIT: Duration = Duration::from_secs(5);

impl Actor {
    /// Ends the guest, if there is one, without waiting for it. A start under way is as fresh as
    /// can be.
    pub(super) fn reset(&mut self) {
        if let Some(guest) = self.guest.take() {
            guest.kill(&self.shared.launcher.tasks);
        }
        self.scope.reset();
        self.idle_output = Capture::default();
        self.loss = Some(Loss::Reset);
    }

    /// Gets a guest: the one under way, the spare, or a new one. Says so if the call is to end
    /// before it is there.
    pub(super) async fn start(
        &mut self,
        call: &mut ActiveCall<'_>,
        progress: Arc<dyn Progress>,
    ) -> Result<Option<Stop>, LaunchError> {
        let older = self.starting.take().or_else(|| self.shared.take_spare());
        let mut may_be_stale = older.is_some();
        self.starting = older;
        loop {
            let starting = self
                .starting
                .get_or_insert_with(|| self.shared.start(&self.name));
            let waited = call.wait_for(starting, Arc::clone(&progress)).await;
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
                    match (*result).and_then(|guest| self.alive(guest)) {
                        Ok(mut guest) => {
                            if may_be_stale {
                                guest.sync.notify(&mut guest.link).await;
                            }
                            guest.questions = self.shared.output_files.open(&self.name);
                            self.guest = Some(guest);
                            self.shared.refill();
                            return Ok(None);
                        }
                        // One that was started for another moment may have died or failed since;
                        // try once more.
                        Err(_) if may_be_stale => {}
                        Err(error) => return Err(error),
                    }
                    may_be_stale = false;
                }
            }
        }
    }

    /// Looks whether a guest that was started a while ago still lives.
    fn alive(&mut self, mut guest: RunningGuest) -> Result<RunningGuest, LaunchError> {
        self.idle_output = Capture::default();
        let gone = execution::watch(&mut guest, &mut self.idle_output).now_or_never();
        if gone.is_none() {
            return Ok(guest);
        }
        guest.kill(&self.shared.launcher.tasks);
        Err(failure("the sandbox ended right after its start".into()))
    }

    /// Kills the guest and waits until it is dead.
    pub(super) async fn kill(&mut self, loss: Loss) {
        self.loss = Some(loss);
        if let Some(guest) = self.guest.take() {
            let kill = guest.kill(&self.shared.launcher.tasks);
            if timeout(KILL_LIMIT, kill).await.is_err() {
                tracing::warn!(
                    session.name = self.name.as_str(),
                    "a guest is slow to be killed"
                );
            }
        }
    }

    /// A guest is dead or must die: finds out how it died, remembers that, and removes the guest.
    pub(super) async fn reap(&mut self, disconnect: Disconnect) -> Death {
        let tasks = &self.shared.launcher.tasks;
        let mut evidence = Evidence {
            exit: None,
            memory_limit: None,
            last_words: String::new(),
        };
        if let Some(mut guest) = self.guest.take() {
            evidence.memory_limit = guest.memory_limit;
            evidence.last_words = guest.link.receiver.last_words();
            if disconnect.needs_kill() {
                let _ = timeout(KILL_LIMIT, guest.kill(tasks)).await;
            } else {
                let (tell, told) = oneshot::channel();
                let closing = self.shared.launcher.closing.clone();
                tasks.spawn(async move {
                    let exit = tokio::select! {
                        exit = timeout(EXIT_LIMIT, guest.container.exit()) => exit.ok(),
                        () = closing.cancelled() => None,
                    };
                    // Nobody may be there to be told, but the kill must be.
                    let _ = tell.send(exit);
                    guest.container.kill().await;
                });
                evidence.exit = told.await.ok().flatten();
            }
        }
        let death = classify(&disconnect, evidence);
        tracing::info!(
            session.name = self.name.as_str(),
            reason = death.reason().as_str(),
            ?disconnect,
            "a guest ended"
        );
        self.loss = Some(Loss::Died(death.clone()));
        death
    }
}
