//! The task of one session: serves one call at a time, owns at most one guest, and knows what became of the last one.
//!
//! `cold -> starting -> ready <-> busy -> (interrupting) -> ready | dead`: cold and dead are `guest: None`, starting is
//! `starting: Some`, busy is inside [`Execution::run`].

mod caller;
mod execute;
mod guest;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::maybe_done;
use tokio::time::{Instant, sleep_until};

use self::caller::{Caller, FOREVER};
use super::answer::Answer;
use super::capture::Capture;
use super::ending::{Death, Ending};
use super::execution;
use super::name::SessionName;
use super::queue::{Call, Queue};
use super::registry::Shared;
use super::servers::{ServerCards, until_refused};
use super::start::{RunningGuest, Starting};
use super::{Error, Progress, Run, RunOutcome, RunRequest, State};
use bridge_broker::Scope;
use bridge_upstream::CallContext;

/// One session.
struct Actor {
    shared: Arc<Shared>,
    name: SessionName,
    queue: Arc<Queue>,
    guest: Option<RunningGuest>,
    starting: Option<Starting>,
    /// Why the variables of earlier calls are gone, until an answer has said so.
    loss: Option<Ending>,
    /// What the guest wrote since the last run.
    idle_output: Capture,
    executions: u64,
    /// What the session may use of the host.
    scope: Arc<Scope>,
}

/// Starts the task of a session. `loss`: what became of the session that had its name before.
pub(super) fn spawn(
    shared: Arc<Shared>,
    name: SessionName,
    queue: Arc<Queue>,
    loss: Option<Ending>,
) {
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
        let ending = AssertUnwindSafe(actor.live()).catch_unwind().await;
        queue.close();
        shared.forget(&name, &queue, ending.unwrap_or(Some(Ending::Bug)));
    });
}

impl Actor {
    /// Serves until shutdown or until it has been idle for long. Returns what the next session of that name is to say.
    async fn live(mut self) -> Option<Ending> {
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
                death = watch(self.guest.as_mut(), &mut self.idle_output) => {
                    self.bury(death).await;
                }
            }
        }
        queue.close();
        if let Some(starting) = self.starting.take() {
            starting.discard().await;
        }
        if let Some(live) = self.guest.take() {
            // A task that panicked has nothing more to tell.
            let _ = live.kill(&self.shared.launcher.tasks).await;
            self.loss = Some(Ending::Idle(idle));
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
    ) -> Result<RunOutcome, Error> {
        let mut caller = Caller::new(request);
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
            interact: Arc::clone(&caller.interact),
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
                stop = self.start(&mut caller, progress) => stop?,
            };
            if let Some(starting) = &self.starting {
                // The refusal was first: the start goes on for the next call.
                starting.release();
            }
            if let Some(stop) = stop {
                let answer = Answer::stopped_at_start(stop, request.timeout);
                return Ok(self.unstarted(answer, request));
            }
        }
        let stop = tokio::select! {
            biased;
            () = loading.as_mut() => caller.stop(true).now_or_never(),
            stop = caller.stop(true) => {
                let answer = Answer::stopped_at_servers(stop, request.timeout, &request.servers);
                return Ok(self.unstarted(answer, request));
            }
        };
        if let Some(stop) = stop {
            return Ok(self.unstarted(Answer::stopped_before_run(stop, request.timeout), request));
        }
        let given = match loading.take_output() {
            Some(Ok(loaded)) => ServerCards::new(loaded),
            Some(Err(refusal)) => return Err(Error::Servers(refusal.message)),
            None => ServerCards::default(),
        };
        Ok(self.execute(&caller, run, given).await)
    }

    /// The outcome of a call that ran nothing. If earlier variables are gone, that is for another answer to tell.
    fn unstarted(&self, answer: Answer, request: &RunRequest) -> RunOutcome {
        // What was loaded for it has not reached the guest.
        self.scope.forget_installed();
        let mut outcome = answer.outcome(&self.name, None, request.timeout);
        if self.loss.is_some() {
            outcome.state = State::Lost;
        }
        outcome
    }
}

/// Watches the guest, if there is one; otherwise waits for ever.
async fn watch(guest: Option<&mut RunningGuest>, output: &mut Capture) -> Death {
    match guest {
        Some(live) => execution::watch(live, output).await,
        None => std::future::pending().await,
    }
}
