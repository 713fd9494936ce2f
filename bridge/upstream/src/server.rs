//! One server's life: started when needed, one start for all who wait, restarted after it ended,
//! stopped when unused.
//!
//! States: `idle -> starting -> running -> idle | failed`. The start is a task of its own: a caller
//! who gives up does not end it, and the next caller joins it.

mod lists;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bridge_common::Mutex;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::deadline::until;
use super::start::{Phase, RunningServer, StartSpec, start};
use super::tool_list::ToolList;
use super::{CallContext, Error, Redactor, Shared, Status};
use bridge_catalog::{Definition, ServerName};

/// Each failure in a row doubles the time until the next attempt, up to the longest.
const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// A server that ran this long did not fail to start.
const STABLE: Duration = Duration::from_secs(10);

/// Time for a server whose definition has changed to finish its calls.
const RETIREMENT: Duration = Duration::from_secs(60);

/// The actor of one server.
pub(super) struct Server {
    pub(super) definition: Arc<Definition>,
    pub(super) redactor: Redactor,
    pub(super) shared: Arc<Shared>,
    pub(super) permits: Semaphore,
    state: Mutex<State>,
    /// Fires when this server is to end for good.
    retired: CancellationToken,
    tools: Mutex<Option<Arc<ToolList>>>,
    tools_stale: AtomicBool,
    /// Held while the list of tools is asked for, by one caller at a time. No other lock is held
    /// while waiting.
    tools_request: tokio::sync::Mutex<()>,
    last_used: Mutex<Instant>,
}

struct State {
    life: Life,
    /// Failures in a row.
    failures: u32,
}

enum Life {
    Idle,
    Starting {
        result: watch::Receiver<Option<Result<Arc<RunningServer>, Error>>>,
        phase: Arc<Phase>,
    },
    Running(Arc<RunningServer>),
    Failed {
        error: Error,
        until: Instant,
    },
}

/// What a caller finds when it wants the server.
enum Next {
    Use(Arc<RunningServer>),
    Wait(
        watch::Receiver<Option<Result<Arc<RunningServer>, Error>>>,
        Arc<Phase>,
    ),
    Fail(Error),
}

impl Server {
    pub(super) fn new(
        definition: Arc<Definition>,
        redactor: Redactor,
        shared: Arc<Shared>,
    ) -> Arc<Self> {
        Arc::new(Self {
            permits: Semaphore::new(shared.options.parallel.max(1)),
            state: Mutex::new(State {
                life: Life::Idle,
                failures: 0,
            }),
            retired: shared.stopped.child_token(),
            tools: Mutex::default(),
            tools_stale: AtomicBool::new(true),
            tools_request: tokio::sync::Mutex::default(),
            last_used: Mutex::new(Instant::now()),
            definition,
            redactor,
            shared,
        })
    }

    pub(super) fn name(&self) -> &ServerName {
        &self.definition.name
    }

    pub(super) fn is_for(&self, definition: &Definition) -> bool {
        self.definition.hash == definition.hash
    }

    pub(super) fn known_tools(&self) -> Option<Arc<ToolList>> {
        self.tools.lock().clone()
    }

    pub(super) fn status(&self) -> Status {
        match &self.state.lock().life {
            Life::Idle => Status::NotRunning,
            Life::Starting { phase, .. } => Status::Starting(phase.get()),
            Life::Running(running) => match running.connection.closed() {
                None => Status::Running {
                    peer: running.peer.clone(),
                    non_protocol: running.connection.non_protocol.count(),
                },
                Some(reason) => Status::Failed(self.died("the last call", &reason)),
            },
            Life::Failed { error, .. } => Status::Failed(error.clone()),
        }
    }

    /// The running server, started where needed. A start that goes on already is joined; the
    /// caller's deadline bounds the wait, not the start.
    pub(super) async fn connect(
        self: &Arc<Self>,
        context: &CallContext,
    ) -> Result<Arc<RunningServer>, Error> {
        let asked = Instant::now();
        let (mut result, phase) = match self.next(context) {
            Next::Use(running) => return Ok(running),
            Next::Fail(error) => return Err(error),
            Next::Wait(result, phase) => (result, phase),
        };
        let give_up = async {
            tokio::select! {
                () = context.cancel.cancelled() => true,
                () = until(context.deadline) => false,
            }
        };
        tokio::select! {
            biased;
            done = result.wait_for(Option::is_some) => match done.as_deref() {
                Ok(Some(result)) => result.clone(),
                _ => Err(self.shutting_down()),
            },
            cancelled = give_up => Err(if cancelled {
                Error::Cancelled { server: self.name().clone(), act: "start".to_owned() }
            } else {
                Error::StillStarting {
                    server: self.name().clone(),
                    phase: phase.get(),
                    elapsed: phase.started.elapsed().max(asked.elapsed()),
                    last_words: phase.last_words(),
                }
            }),
        }
    }

    fn next(self: &Arc<Self>, context: &CallContext) -> Next {
        let mut state = self.state.lock();
        if self.retired.is_cancelled() {
            return Next::Fail(self.shutting_down());
        }
        match &state.life {
            Life::Running(running) => match running.connection.closed() {
                None => return Next::Use(Arc::clone(running)),
                // The first restart is immediate; a server that keeps dying young is left alone for
                // longer each time.
                Some(_) if running.since.elapsed() >= STABLE || state.failures == 0 => {
                    state.failures = u32::from(running.since.elapsed() < STABLE);
                }
                Some(reason) => {
                    let error = self.died("the last call", &reason);
                    self.set_failed(&mut state, error);
                }
            },
            Life::Starting { result, phase } => {
                return Next::Wait(result.clone(), Arc::clone(phase));
            }
            Life::Idle | Life::Failed { .. } => {}
        }
        if let Life::Failed { error, until } = &state.life {
            let wait = until.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                return Next::Fail(Error::BackingOff {
                    error: Box::new(error.clone()),
                    wait,
                });
            }
        }
        let (sender, result) = watch::channel(None);
        let phase = Arc::new(Phase::default());
        // The server is told what the first caller's client offers; a bridge has one client.
        let offers = context.interact.offers();
        tokio::spawn(Arc::clone(self).start(sender, Arc::clone(&phase), offers));
        state.life = Life::Starting {
            result: result.clone(),
            phase: Arc::clone(&phase),
        };
        Next::Wait(result, phase)
    }

    async fn start(
        self: Arc<Self>,
        sender: watch::Sender<Option<Result<Arc<RunningServer>, Error>>>,
        phase: Arc<Phase>,
        offers: Value,
    ) {
        self.tools_stale.store(true, Ordering::SeqCst);
        let result = tokio::select! {
            result = self.start_once(&phase, &offers) => result,
            () = self.retired.cancelled() => Err(self.shutting_down()),
        };
        let retired = {
            let mut state = self.state.lock();
            match &result {
                Ok(running) => {
                    state.life = Life::Running(Arc::clone(running));
                    *self.last_used.lock() = Instant::now();
                }
                Err(error) => self.set_failed(&mut state, error.clone()),
            }
            self.retired.is_cancelled()
        };
        if let Ok(running) = &result {
            if retired {
                running.stop().await;
            } else {
                tokio::spawn(stop_when_unused(Arc::downgrade(&self), Arc::clone(running)));
            }
        }
        let _ = sender.send(Some(result));
    }

    async fn start_once(
        self: &Arc<Self>,
        phase: &Phase,
        offers: &Value,
    ) -> Result<Arc<RunningServer>, Error> {
        let server = Arc::downgrade(self);
        let on_change = move |method: &str| {
            if let Some(server) = server.upgrade() {
                server.changed(method);
            }
        };
        start(&StartSpec {
            definition: &self.definition,
            options: &self.shared.options,
            redactor: &self.redactor,
            large: &self.shared.large,
            offers,
            on_change: Arc::new(on_change),
            phase,
        })
        .await
    }

    fn shutting_down(&self) -> Error {
        Error::ShuttingDown {
            server: self.name().clone(),
        }
    }

    /// Notes a failure. After the first in a row the next attempt may come at once: a person may
    /// just have mended something.
    fn set_failed(&self, state: &mut State, error: Error) {
        tracing::warn!(server.name = %self.name(), %error, "server failed");
        let doublings = state.failures.min(10);
        let wait = match state.failures {
            0 => Duration::ZERO,
            _ => (FIRST_BACK_OFF * 2_u32.pow(doublings)).min(LONGEST_BACK_OFF),
        };
        state.failures = state.failures.saturating_add(1);
        state.life = Life::Failed {
            error,
            until: Instant::now() + wait,
        };
    }

    /// Notes that a request has worked: earlier failures no longer count.
    pub(super) fn worked(&self) {
        self.state.lock().failures = 0;
        *self.last_used.lock() = Instant::now();
    }

    /// Stops the server for good once its calls have ended, after a minute at the latest.
    pub(super) async fn retire(&self) {
        let all = u32::try_from(self.shared.options.parallel.max(1)).unwrap_or(u32::MAX);
        tokio::select! {
            _ = tokio::time::timeout(RETIREMENT, self.permits.acquire_many(all)) => {}
            () = self.retired.cancelled() => {}
        }
        self.stop().await;
    }

    /// Stops the server for good. Returns when it is gone.
    pub(super) async fn stop(&self) {
        self.retired.cancel();
        let starting = match &self.state.lock().life {
            Life::Starting { result, .. } => Some(result.clone()),
            _ => None,
        };
        if let Some(mut result) = starting {
            let _ = result.wait_for(Option::is_some).await;
        }
        let running = match std::mem::replace(&mut self.state.lock().life, Life::Idle) {
            Life::Running(running) => Some(running),
            _ => None,
        };
        if let Some(running) = running {
            running.stop().await;
        }
    }

    /// Takes a notification that concerns more than one call.
    fn changed(&self, method: &str) {
        if method == "notifications/tools/list_changed" {
            self.tools_stale.store(true, Ordering::SeqCst);
            let _ = self.shared.changes.send(self.name().clone());
        }
    }
}

/// Ends a server that has not been used for a while; it is started again when needed.
async fn stop_when_unused(server: Weak<Server>, running: Arc<RunningServer>) {
    loop {
        let wake = {
            let Some(server) = server.upgrade() else {
                break;
            };
            let idle = server.shared.options.idle;
            if idle.is_zero() {
                return;
            }
            let busy = server.permits.available_permits() < server.shared.options.parallel.max(1);
            let wake = if busy {
                Instant::now() + idle
            } else {
                *server.last_used.lock() + idle
            };
            if wake <= Instant::now() {
                let mut state = server.state.lock();
                if matches!(&state.life, Life::Running(current) if Arc::ptr_eq(current, &running)) {
                    state.life = Life::Idle;
                }
                break;
            }
            wake
        };
        tokio::select! {
            () = tokio::time::sleep_until(wake) => {}
            () = running.connection.ended() => return,
        }
    }
    running.stop().await;
}
