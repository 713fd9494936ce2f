//! The task of one session: serves one call at a time, owns at most one guest, and knows what
//! became of the last one.
//!
//! `cold -> starting -> ready <-> busy -> (interrupting) -> ready | dead`: cold and dead are
//! `guest: None`, starting is `starting: Some`, busy is inside [`execution::Execution::run`].

mod call;
mod execute;
mod guest;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::maybe_done;
use tokio::time::{Instant, sleep_until};

use self::call::{ActiveCall, FOREVER};
use crate::api::{Error, Progress, RunRequest};
use crate::guest::death::Disconnect;
use crate::guest::execution;
use crate::guest::running::RunningGuest;
use crate::guest::servers::{ServerCards, until_refused};
use crate::guest::start::Starting;
use crate::name::SessionName;
use crate::run::Run;
use crate::run::capture::Capture;
use crate::run::ending::{Ending, Obstacle, State, Stop};
use crate::run::notes::Loss;
use crate::run::outcome::RunEnd;
use crate::run::queue::{Call, Queue};
use crate::shared::Shared;
use bridge_broker::Scope;
use bridge_upstream::CallContext;

/// Servers of a call that an ending names.
const NAMED_SERVERS: usize = 100;
/// Characters of each such name.
const NAME_LIMIT: usize = 200;

/// One session: its guest, and what its next answer has to say.
struct Actor {
    shared: Arc<Shared>,
    name: SessionName,
    queue: Arc<Queue>,
    guest: Option<RunningGuest>,
    starting: Option<Starting>,
    /// Why the variables of earlier calls are gone, until an answer has said so.
    loss: Option<Loss>,
    /// What the guest has written since the last run.
    idle_output: Capture,
    executions: u64,
    /// What the session may use of the host.
    scope: Arc<Scope>,
}

/// Starts the task of a session. `loss` is what became of the previous session of that name.
pub(crate) fn spawn(shared: Arc<Shared>, name: SessionName, queue: Arc<Queue>, loss: Option<Loss>) {
    let tasks = shared.launcher.tasks.clone();
    tasks.spawn(async move {
        let actor = Actor {
            shared: Arc::clone(&shared),
            name: name.clone(),
            queue: Arc::clone(&queue),
            guest: None,
            starting: None,
            loss,
            idle_output: Capture::default(),
            executions: 0,
            scope: shared.broker.scope(),
        };
        // A fault here must cost this session only. Its guest is killed by being dropped.
        let loss = AssertUnwindSafe(actor.live()).catch_unwind().await;
        queue.close();
        shared.forget(&name, &queue, loss.unwrap_or(Some(Loss::Bug)));
    });
}

impl Actor {
    /// Serves until shutdown or until it has been idle for long. Returns what the next session of
    /// that name is to say.
    async fn live(mut self) -> Option<Loss> {
        let closing = self.shared.launcher.closing.clone();
        let queue = Arc::clone(&self.queue);
        let idle = self.shared.settings.idle;
        let timer = sleep_until(Instant::now() + idle.min(FOREVER));
        tokio::pin!(timer);
        loop {
            tokio::select! {
                biased;
                () = closing.cancelled() => break,
                call = queue.pop() => {
                    self.serve(call).await;
                    timer.as_mut().reset(Instant::now() + idle.min(FOREVER));
                }
                () = &mut timer, if !idle.is_zero() => {
                    if queue.close_if_empty() {
                        break;
                    }
                }
                disconnect = watch(self.guest.as_mut(), &mut self.idle_output) => {
                    self.reap(disconnect).await;
                }
            }
        }
        queue.close();
        if let Some(starting) = self.starting.take() {
            starting.discard().await;
        }
        if let Some(guest) = self.guest.take() {
            // A task that panicked has nothing more to tell.
            let _ = guest.kill(&self.shared.launcher.tasks).await;
            self.loss = Some(Loss::Idle(idle));
        }
        self.loss
    }

    /// Answers a call, unless shutdown comes first.
    async fn serve(&mut self, call: Call) {
        let Call {
            request,
            progress,
            reply,
        } = call;
        let closing = self.shared.launcher.closing.clone();
        let answer = tokio::select! {
            biased;
            () = closing.cancelled() => Err(Error::ShuttingDown),
            answer = self.answer(&request, reply.run(), progress) => answer,
        };
        self.queue.end_current();
        reply.finish(answer);
    }

    /// Has the call's servers loaded and a guest started side by side, then runs the code.
    async fn answer(
        &mut self,
        request: &RunRequest,
        run: &Run,
        progress: Arc<dyn Progress>,
    ) -> Result<RunEnd, Error> {
        let mut active = ActiveCall::new(request);
        if request.reset {
            self.reset();
        }
        if self.guest.is_none() {
            self.scope.forget_installed();
        }
        let scope = Arc::clone(&self.scope);
        let context = CallContext {
            // The clock may stand still while the guest starts; the call's end is seen below.
            deadline: None,
            cancel: request.cancel.clone(),
            interact: Arc::clone(&active.interact),
        };
        let mut loading = pin!(maybe_done(scope.load(
            &request.servers,
            &request.code,
            &context
        )));
        if self.guest.is_none() {
            let stop = tokio::select! {
                biased;
                () = until_refused(loading.as_mut()) => None,
                stop = self.start(&mut active, progress) => stop?,
            };
            if let Some(starting) = &self.starting {
                // The refusal was first: the start goes on for the next call.
                starting.release();
            }
            if let Some(stop) = stop {
                return Ok(self.unstarted(Obstacle::SandboxStarting(stop)));
            }
        }
        let stop = tokio::select! {
            biased;
            () = loading.as_mut() => active.stop(true).now_or_never(),
            by = active.stop(true) => {
                let name = |name: &String| name.chars().take(NAME_LIMIT).collect();
                let servers = request.servers.iter().take(NAMED_SERVERS).map(name).collect();
                return Ok(self.unstarted(Obstacle::ServersStarting { by, servers }));
            }
        };
        if let Some(stop) = stop {
            return Ok(self.unstarted(match stop {
                Stop::Cancelled => Obstacle::Withdrawn,
                Stop::TimeLimit => Obstacle::TimeSpentOnStart,
            }));
        }
        let cards = match loading.take_output() {
            Some(Ok(loaded)) => ServerCards::new(loaded),
            Some(Err(refusal)) => return Err(Error::Servers(refusal.message)),
            None => ServerCards::default(),
        };
        Ok(self.execute(&active, run, cards).await)
    }

    /// The end of a call that ran nothing. If earlier variables are gone, that is for another
    /// answer to tell.
    fn unstarted(&self, obstacle: Obstacle) -> RunEnd {
        // What was loaded for the call has not reached the guest.
        self.scope.forget_installed();
        let state = if self.loss.is_some() {
            State::Lost
        } else {
            State::Kept
        };
        Ending::NotStarted { obstacle, state }.into()
    }
}

/// Watches the guest, if there is one; otherwise waits for ever.
async fn watch(guest: Option<&mut RunningGuest>, output: &mut Capture) -> Disconnect {
    match guest {
        Some(guest) => execution::watch(guest, output).await,
        None => std::future::pending().await,
    }
}
