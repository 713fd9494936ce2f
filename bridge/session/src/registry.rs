//! The door to all sessions: creates them on first use, remembers what became of the old ones, shuts them all down.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::actor;
use super::answer::Answer;
use super::ending::Ending;
use super::files::{FileError, OutFile, OutputFiles};
use super::name::SessionName;
use super::queue::{Call, PushError, QUEUE_LIMIT, Queue};
use super::run::{PendingReply, Run};
use super::runs::Runs;
use super::start::{Launcher, Starting};
use super::{CODE_LIMIT, Error, Launch, Progress, RunOutcome, RunRequest};
use bridge_broker::Broker;
use bridge_settings::{Limits, SessionSettings, Settings};
use bridge_wire::FRAME_LIMIT;

/// For every guest to be dead at shutdown; they are killed side by side.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// Ends of sessions that are remembered, for the note in the next answer.
const ENDINGS: usize = 256;

/// What of a frame is not the code, generously.
const FRAME_OVERHEAD: usize = 1 << 10;

/// All sessions of one bridge.
///
/// A name creates its session on first use. Nothing is started before the first run. Dropping this without
/// [`Sessions::shutdown`] ends all sessions too, but without waiting.
pub struct Sessions {
    shared: Arc<Shared>,
    _close: DropGuard,
}

/// What the sessions have in common.
pub(super) struct Shared {
    /// Starts guests.
    pub(super) launcher: Launcher,
    /// Answers requests of guests.
    pub(super) broker: Arc<Broker>,
    /// What one guest may use.
    pub(super) limits: Limits,
    /// How long runs and sessions live.
    pub(super) settings: SessionSettings,
    runs: Arc<Runs>,
    /// Files that guests offer.
    pub(super) shelf: OutputFiles,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    sessions: BTreeMap<SessionName, Arc<Queue>>,
    endings: VecDeque<(SessionName, Ending)>,
    spare: Option<Starting>,
}

impl Sessions {
    /// No session yet; `launch` starts their guests, `broker` answers what these want of the host.
    pub fn new(launch: Arc<dyn Launch>, broker: Arc<Broker>, settings: &Settings) -> Self {
        Self::with(launch, broker, settings.limits, settings.session.clone())
    }

    /// Likewise, from the two parts that matter here.
    pub(super) fn with(
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
                shelf: OutputFiles::default(),
                registry: Mutex::default(),
            }),
            _close: closing.drop_guard(),
        }
    }

    /// Begins a run, after the calls that wait in the same session. It goes on whether anybody waits for it or not.
    ///
    /// The time limit covers the run and the start of the sandbox, not the wait for earlier calls, and not the long
    /// phases of a start (loading the image, starting an engine), which have a limit of their own.
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
        let run = self.shared.enqueue(&name, request, progress)?;
        self.shared.runs.add(&run);
        Ok(run)
    }

    /// A run of before, by its name, or by `last` the latest one of a session.
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
            return Ok(Answer::withdrawn().outcome(&name, None, request.timeout));
        }
        let run = self.start(request, progress)?;
        let _cancel_on_drop = run.attend();
        run.ended().await;
        run.read()
    }

    /// Files in `/workspace/out` of each session that has a sandbox, as they were after its last run.
    pub fn files(&self) -> Vec<(String, Vec<OutFile>)> {
        self.shared.shelf.list()
    }

    /// The content of one, as it is now.
    pub async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError> {
        let Ok(name) = SessionName::parse(Some(session)) else {
            let session = session.chars().take(64).collect();
            return Err(FileError::Gone { session });
        };
        self.shared.shelf.read(&name, path).await
    }

    /// Kills every guest, all at once, and waits until they are dead, a few seconds at most. Calls that wait or run end
    /// with [`Error::ShuttingDown`].
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
}

impl Shared {
    /// Puts the call into its session's queue; creates the session where there is none.
    fn enqueue(
        self: &Arc<Self>,
        name: &SessionName,
        mut request: RunRequest,
        mut progress: Arc<dyn Progress>,
    ) -> Result<Arc<Run>, Error> {
        let mut registry = self.lock();
        loop {
            if self.launcher.closing.is_cancelled() {
                return Err(Error::ShuttingDown);
            }
            let queue = match registry.sessions.get(name) {
                Some(queue) => Arc::clone(queue),
                None => self.create(&mut registry, name)?,
            };
            if request.reset {
                // Its variables are given up.
                queue.cancel_holder();
            }
            let run = Run::new(name.clone(), &request, Arc::clone(&queue));
            let reply = PendingReply::new(Arc::clone(&run), self.launcher.closing.clone());
            let call = Call {
                request,
                progress,
                reply,
            };
            match queue.push(call) {
                Ok(()) => return Ok(run),
                Err(PushError::Full) => {
                    return Err(Error::QueueFull {
                        session: name.as_str().to_owned(),
                        limit: QUEUE_LIMIT,
                    });
                }
                Err(PushError::Closed(back)) => {
                    // It is just ending; its successor need not wait for that.
                    registry.sessions.remove(name);
                    (request, progress) = (back.request, back.progress);
                }
            }
        }
    }

    fn create(
        self: &Arc<Self>,
        registry: &mut Registry,
        name: &SessionName,
    ) -> Result<Arc<Queue>, Error> {
        let limit = self.settings.max_sessions;
        if registry.sessions.len() >= limit {
            let names = registry.sessions.keys();
            return Err(Error::TooManySessions {
                limit,
                names: names.map(|name| name.as_str().to_owned()).collect(),
            });
        }
        let known = registry.endings.iter().position(|(ended, _)| ended == name);
        let ending = known.and_then(|index| registry.endings.remove(index));
        let queue = Arc::<Queue>::default();
        registry.sessions.insert(name.clone(), Arc::clone(&queue));
        actor::spawn(
            Arc::clone(self),
            name.clone(),
            Arc::clone(&queue),
            ending.map(|(_, ending)| ending),
        );
        Ok(queue)
    }

    /// A session has ended; `ending` is for the note of its successor.
    pub(super) fn forget(&self, name: &SessionName, queue: &Arc<Queue>, ending: Option<Ending>) {
        let mut registry = self.lock();
        let current = registry.sessions.get(name);
        if current.is_some_and(|current| Arc::ptr_eq(current, queue)) {
            registry.sessions.remove(name);
            if let Some(ending) = ending {
                registry.endings.push_back((name.clone(), ending));
                if registry.endings.len() > ENDINGS {
                    registry.endings.pop_front();
                }
            }
        }
        if registry.sessions.is_empty() {
            drop(registry);
            self.discard_spare();
        }
    }

    /// The spare guest, if there is one.
    pub(super) fn spare(&self) -> Option<Starting> {
        self.lock().spare.take()
    }

    /// A new guest on its way.
    pub(super) fn start(&self, name: &SessionName) -> Starting {
        Starting::new(&self.launcher, Some(name.as_str()))
    }

    /// Begins to start a spare where one is wanted and none is there.
    pub(super) fn refill(&self) {
        let mut registry = self.lock();
        let wanted = self.settings.spare && !self.launcher.closing.is_cancelled();
        if wanted && registry.spare.is_none() {
            registry.spare = Some(Starting::new(&self.launcher, None));
        }
    }

    fn discard_spare(&self) {
        if let Some(spare) = self.lock().spare.take() {
            self.launcher.tasks.spawn(spare.discard());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
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
