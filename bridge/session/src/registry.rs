//! The door to all sessions: creates them on first use, and shuts them all down.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::actor;
use crate::api::{CODE_LIMIT, Error, Launch, Progress, RunRequest};
use crate::guest::start::Launcher;
use crate::name::SessionName;
use crate::run::outcome::{OutFile, RunOutcome};
use crate::run::queue::{PushError, QUEUE_LIMIT, Queue};
use crate::run::slot::WaitingCall;
use crate::run::{PendingReply, Run, withdrawn};
use crate::shared::{Registry, Shared};
use crate::sync::out_files::{FileError, OutputFiles};
use bridge_broker::Broker;
use bridge_common::Mutex;
use bridge_settings::{Limits, SessionSettings, Settings};
use bridge_wire::FRAME_LIMIT;

/// Time for every guest to be dead at shutdown; guests are killed side by side.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of a frame that are not the code, generously.
const FRAME_OVERHEAD: usize = 1 << 10;

/// All sessions of one bridge.
///
/// A name creates its session on first use. Nothing is started before the first run. Dropping this
/// without [`Sessions::shutdown`] ends all sessions too, but without waiting.
pub struct Sessions {
    shared: Arc<Shared>,
    _close: DropGuard,
}

impl Sessions {
    /// A bridge without a session yet; `launch` starts guests, `broker` answers what they ask of
    /// the host.
    pub fn new(launch: Arc<dyn Launch>, broker: Arc<Broker>, settings: &Settings) -> Self {
        Self::with(launch, broker, settings.limits, settings.session.clone())
    }

    /// A bridge from the two groups of settings that matter here.
    pub(crate) fn with(
        launch: Arc<dyn Launch>,
        broker: Arc<Broker>,
        limits: Limits,
        settings: SessionSettings,
    ) -> Self {
        let closing = CancellationToken::new();
        let launcher = Launcher {
            launch,
            broker: Arc::clone(&broker),
            tasks: TaskTracker::new(),
            closing: closing.clone(),
            abandon: CancellationToken::new(),
        };
        Self {
            shared: Arc::new(Shared {
                launcher,
                broker,
                limits,
                settings,
                runs: Arc::default(),
                output_files: OutputFiles::default(),
                registry: Mutex::default(),
            }),
            _close: closing.drop_guard(),
        }
    }

    /// Begins a run, after the calls that wait in the same session. It goes on whether anybody
    /// waits for it or not.
    ///
    /// The time limit covers the run and the start of the sandbox, not the wait for earlier calls,
    /// and not the long phases of a start (loading the image, starting an engine), which have a
    /// limit of their own.
    pub fn start(
        &self,
        mut request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<Arc<Run>, Error> {
        let name = SessionName::parse(request.session.as_deref())?;
        if request.code.len() > CODE_LIMIT
            || encoded_len(&request.code) > FRAME_LIMIT - FRAME_OVERHEAD
        {
            return Err(Error::CodeTooLarge { limit: CODE_LIMIT });
        }
        // Cancelling one run must not cancel what else hangs on the caller's token.
        request.cancel = request.cancel.child_token();
        let run = self.enqueue(&name, request, progress)?;
        self.shared.runs.add(&run);
        Ok(run)
    }

    /// An earlier run, by its name, or by `last` the latest one of a session.
    pub fn find(&self, id: &str, session: Option<&str>) -> Result<Arc<Run>, Error> {
        self.shared.runs.find(id, session)
    }

    /// Runs code to its end. Dropping the future cancels the call.
    pub async fn run(
        &self,
        request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<RunOutcome, Error> {
        if request.cancel.is_cancelled() {
            let name = SessionName::parse(request.session.as_deref())?;
            return Ok(withdrawn(&name, request.timeout));
        }
        let run = self.start(request, progress)?;
        let _cancel_on_drop = run.attend();
        run.ended_or_given_up().await;
        run.read()
    }

    /// Files in `/workspace/out` of each session that has a sandbox, as they were after its last
    /// run.
    pub fn files(&self) -> Vec<(String, Vec<OutFile>)> {
        self.shared.output_files.list()
    }

    /// The content of one file as it is now.
    pub async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError> {
        let Ok(name) = SessionName::parse(Some(session)) else {
            let session = session.chars().take(64).collect();
            return Err(FileError::Gone { session });
        };
        self.shared.output_files.read(&name, path).await
    }

    /// Kills every guest, all at once, and waits until they are dead, a few seconds at most. Calls
    /// that wait or run end with [`Error::ShuttingDown`].
    pub async fn shutdown(&self) {
        let launcher = &self.shared.launcher;
        launcher.closing.cancel();
        self.shared.discard_spare();
        launcher.tasks.close();
        let wait = || tokio::time::timeout(SHUTDOWN_LIMIT, launcher.tasks.wait());
        if wait().await.is_err() {
            // What is left is a start that hangs, or an engine that does not answer.
            launcher.abandon.cancel();
            tracing::warn!(tasks = launcher.tasks.len(), "guests were slow to end");
        }
    }

    /// Puts a call into its session's queue; creates the session where there is none.
    fn enqueue(
        &self,
        name: &SessionName,
        request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<Arc<Run>, Error> {
        let shared = &self.shared;
        let mut registry = shared.registry.lock();
        let mut call = WaitingCall { request, progress };
        loop {
            if shared.launcher.closing.is_cancelled() {
                return Err(Error::ShuttingDown);
            }
            let queue = match registry.sessions.get(name) {
                Some(queue) => Arc::clone(queue),
                None => self.create(&mut registry, name)?,
            };
            if call.request.reset {
                // The session's variables are given up.
                queue.cancel_left_running();
            }
            let run = Run::new(name.clone(), &call.request, queue.slot())?;
            let reply = PendingReply::new(Arc::clone(&run), shared.launcher.closing.clone());
            match queue.push(call, reply) {
                Ok(()) => return Ok(run),
                Err(PushError::Full) => {
                    return Err(Error::QueueFull {
                        session: name.as_str().to_owned(),
                        limit: QUEUE_LIMIT,
                    });
                }
                Err(PushError::Closed(back)) => {
                    // The session is just ending; its successor need not wait for that.
                    registry.sessions.remove(name);
                    call = *back;
                }
            }
        }
    }

    fn create(&self, registry: &mut Registry, name: &SessionName) -> Result<Arc<Queue>, Error> {
        let limit = self.shared.settings.max_sessions;
        if registry.sessions.len() >= limit {
            let names = registry.sessions.keys();
            return Err(Error::TooManySessions {
                limit,
                names: names.map(|name| name.as_str().to_owned()).collect(),
            });
        }
        let loss = registry.take_loss(name);
        let queue = Arc::<Queue>::default();
        registry.sessions.insert(name.clone(), Arc::clone(&queue));
        actor::spawn(
            Arc::clone(&self.shared),
            name.clone(),
            Arc::clone(&queue),
            loss,
        );
        Ok(queue)
    }
}

/// Bytes of `text` as a JSON string; not counted where it cannot matter.
fn encoded_len(text: &str) -> usize {
    if text.len() < FRAME_LIMIT / 8 {
        return text.len();
    }
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
            0..32 => 6,
            _ => 1,
        })
        .sum()
}
