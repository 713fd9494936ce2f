//! The task of one session: serves one call at a time, owns at most one guest, and knows what became of the last one.
//!
//! `cold -> starting -> ready <-> busy -> (interrupting) -> ready | dead`: cold and dead are `guest: None`, starting is
//! `starting: Some`, busy is inside [`Execution::run`].

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::maybe_done;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::Answer;
use super::capture::Capture;
use super::ending::{Death, Ending};
use super::execution::{self, Execution, Stop, Verdict};
use super::name::SessionName;
use super::queue::{Call, Queue};
use super::registry::Shared;
use super::servers::{Given, until_refused};
use super::start::{EXIT_LIMIT, Live, Starting, failure};
use super::{Error, LaunchError, Progress, RunOutcome, RunRequest, State, Status};
use crate::broker::{RunContext, Scope};
use crate::store::Origin;
use crate::upstream::CallContext;

/// For a start to make progress: from its beginning or from its last report to the next.
const START_LIMIT: Duration = Duration::from_secs(120);

/// For an answer to wait until a killed guest is dead. The kill goes on in any case.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Longer time limits are cut to this; it keeps clock arithmetic from overflowing.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// One session.
struct Actor {
    shared: Arc<Shared>,
    name: SessionName,
    queue: Arc<Queue>,
    guest: Option<Live>,
    starting: Option<Starting>,
    /// Why the variables of earlier calls are gone, until an answer has said so.
    loss: Option<Ending>,
    /// What the guest wrote since the last run.
    kept: Capture,
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
            kept: Capture::default(),
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
                death = watch(self.guest.as_mut(), &mut self.kept) => {
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

    async fn serve(&mut self, call: Call) {
        let Call {
            request,
            progress,
            mut reply,
        } = call;
        let closing = self.shared.launcher.closing.clone();
        let answer = tokio::select! {
            biased;
            () = closing.cancelled() => Err(Error::ShuttingDown),
            answer = self.answer(&request, progress, &mut reply) => answer,
        };
        // The caller may have gone away; that was its cancellation.
        let _ = reply.send(answer);
    }

    async fn answer(
        &mut self,
        request: &RunRequest,
        progress: Arc<dyn Progress>,
        reply: &mut oneshot::Sender<Result<RunOutcome, Error>>,
    ) -> Result<RunOutcome, Error> {
        let mut caller = Caller {
            request,
            reply,
            deadline: Instant::now() + request.timeout.min(FOREVER),
        };
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
            interact: Arc::clone(&request.client.0),
        };
        let mut loading = pin!(maybe_done(scope.load(&request.servers, &context)));
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
            Some(Ok(loaded)) => Given::new(loaded),
            Some(Err(refusal)) => return Err(Error::Servers(refusal.message)),
            None => Given::default(),
        };
        Ok(self.execute(&mut caller, given).await)
    }

    /// The outcome of a call that ran nothing. If earlier variables are gone, that is for another answer to tell.
    fn unstarted(&self, answer: Answer, request: &RunRequest) -> RunOutcome {
        // What was loaded for it has not reached the guest.
        self.scope.forget_installed();
        let mut outcome = answer.outcome(&self.name, Capture::default(), None, request.timeout);
        if self.loss.is_some() {
            outcome.state = State::Lost;
        }
        outcome
    }

    async fn execute(&mut self, caller: &mut Caller<'_>, given: Given) -> RunOutcome {
        let request = caller.request;
        let output_bytes = self.shared.limits.output_bytes;
        let grace = self.shared.settings.grace;
        self.executions += 1;
        let (run, responses) = self.scope.run(RunContext {
            // The run ends all of its calls itself, and then knows which they were.
            deadline: None,
            cancel: request.cancel.clone(),
            interact: Arc::clone(&request.client.0),
            origin: Origin {
                session: self.name.as_str().to_owned(),
                run: self.executions,
            },
        });
        let mut execution = Execution {
            id: self.executions,
            code: &request.code,
            output_bytes,
            open_files: self.shared.limits.open_files,
            text_bytes: request.text_bytes,
            grace,
            given: &given,
            run,
            responses,
            calls: None,
        };
        let loss = self.loss.take();
        let mut kept_notes = Vec::new();
        let note = given.note(loss.as_ref().map(Ending::note));
        let mut capture = std::mem::take(&mut self.kept);
        capture.cut(output_bytes);
        let (mut verdict, stopped) = match self.guest.as_mut() {
            Some(live) => execution.run(live, &mut capture, caller.stop(true)).await,
            None => (Verdict::Dead(Death::Ended), None),
        };
        let calls = execution.end();
        let cell = self.guest.as_ref().map_or(0, |live| live.cells);
        let mut files = Vec::new();
        let mut died = None;
        if let (Verdict::Done(done), Some(live)) = (&mut verdict, self.guest.as_mut()) {
            if let Some(changed) = done.projects.take() {
                let store = self.shared.broker.store();
                died = live
                    .carry(changed, store, &mut capture, output_bytes)
                    .await
                    .err();
            }
            kept_notes = live.known.notes();
        }
        let answer = match (verdict, stopped) {
            (Verdict::Done(mut done), _) => {
                files = self
                    .shared
                    .shelf
                    .put(&self.name, std::mem::take(&mut done.files));
                Answer::done(*done, stopped, request.timeout, output_bytes)
            }
            (Verdict::Dead(death), _) => {
                Answer::dead(&self.bury(death).await, stopped, request.timeout)
            }
            (Verdict::Deaf(stop), _) => {
                self.kill(match stop {
                    Stop::Timeout => Ending::TimeLimit,
                    Stop::Cancelled => Ending::Cancelled,
                })
                .await;
                Answer::killed(stop, request.timeout, grace)
            }
        };
        let mut outcome = answer.outcome(&self.name, capture, note, request.timeout);
        outcome.calls = calls;
        if let Some(death) = died {
            self.bury(death).await;
            outcome.state = State::Lost;
            kept_notes.push(
                "the sandbox ended right after this run; what it left below /projects is not kept"
                    .to_owned(),
            );
        }
        outcome.note = with_notes(outcome.note, kept_notes);
        outcome.servers = given.loaded(&self.scope);
        outcome.cell = cell;
        outcome.files = files;
        if outcome.status == Status::Cancelled && self.loss.is_none() {
            // Nobody reads this answer: the next one still has to say it.
            self.loss = loss;
        }
        outcome
    }

    /// Ends the guest, if there is one, without waiting for it. A start under way is as fresh as can be.
    fn reset(&mut self) {
        if let Some(live) = self.guest.take() {
            live.kill(&self.shared.launcher.tasks);
        }
        self.scope.reset();
        self.kept = Capture::default();
        self.loss = Some(Ending::Reset);
    }

    /// Gets a guest: the one under way, the spare, or a new one. Says so if the call is to end before it is there.
    async fn start(
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
                                live.tell(&self.shared.broker).await;
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
    fn alive(&mut self, mut live: Live) -> Result<Live, LaunchError> {
        self.kept = Capture::default();
        let death = execution::watch(&mut live, &mut self.kept).now_or_never();
        if death.is_none() {
            return Ok(live);
        }
        live.kill(&self.shared.launcher.tasks);
        Err(failure("the sandbox ended right after its start".into()))
    }

    /// Kills the guest and waits until it is dead.
    async fn kill(&mut self, ending: Ending) {
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
    async fn bury(&mut self, death: Death) -> Ending {
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

/// The note, with what is to be said of what is kept.
fn with_notes(note: Option<String>, kept: Vec<String>) -> Option<String> {
    let notes: Vec<String> = note.into_iter().chain(kept).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Watches the guest, if there is one; otherwise waits for ever.
async fn watch(guest: Option<&mut Live>, kept: &mut Capture) -> Death {
    match guest {
        Some(live) => execution::watch(live, kept).await,
        None => std::future::pending().await,
    }
}

/// Whoever waits for the answer, and until when.
struct Caller<'a> {
    request: &'a RunRequest,
    reply: &'a mut oneshot::Sender<Result<RunOutcome, Error>>,
    deadline: Instant,
}

/// How waiting for a start ended.
enum Waited {
    Finished(Box<Result<Live, LaunchError>>),
    Stopped(Stop),
    Stalled,
}

impl Caller<'_> {
    /// Waits until the call is to end early; by its time limit only while the clock is `ticking`.
    async fn stop(&mut self, ticking: bool) -> Stop {
        tokio::select! {
            biased;
            () = self.request.cancel.cancelled() => Stop::Cancelled,
            () = self.reply.closed() => Stop::Cancelled,
            () = sleep_until(self.deadline), if ticking => Stop::Timeout,
        }
    }

    /// Waits for a start. From the first report of a long phase on, the call's clock stands still.
    async fn wait_for(&mut self, starting: &mut Starting, progress: Arc<dyn Progress>) -> Waited {
        let mut reports = starting.listen(progress);
        let mut paused = (*reports.borrow_and_update() > 0).then(Instant::now);
        let stall = sleep_until(Instant::now() + START_LIMIT);
        tokio::pin!(stall);
        loop {
            tokio::select! {
                biased;
                result = starting.finish() => {
                    if let Some(paused) = paused {
                        self.deadline += paused.elapsed();
                    }
                    return Waited::Finished(Box::new(result));
                }
                stop = self.stop(paused.is_none()) => return Waited::Stopped(stop),
                Ok(()) = reports.changed() => {
                    paused.get_or_insert_with(Instant::now);
                    stall.as_mut().reset(Instant::now() + START_LIMIT);
                }
                () = &mut stall => return Waited::Stalled,
            }
        }
    }
}
