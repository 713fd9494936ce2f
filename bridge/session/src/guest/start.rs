//! Starting a guest in a task of its own, so that a call that gives up costs no started guest: the
//! next call takes it.
//!
//! A [`Starting`] is also what waits as the spare.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::death::Disconnect;
use super::running::RunningGuest;
use crate::api::{Guest, Launch, LaunchError, Progress};
use crate::run::exit_status::ExitStatus;
use crate::sync::GuestSync;
use crate::sync::out_files::FileQuestions;
use bridge_broker::Broker;
use bridge_common::Mutex;
use bridge_engine::{self as engine, Attached};
use bridge_store::{Part, Seen};
use bridge_wire::{Ends, Event, FromGuest, Link, Output, PROTOCOL, Ready};

/// Time from attached to `ready`. A guest needs some 40 ms; this is for machines in deep trouble.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Time for a guest that has closed its output to be dead.
pub(crate) const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// Passes reports on to the call that waits for the start, while one does.
#[derive(Default)]
struct Forward {
    listener: Mutex<Option<Arc<dyn Progress>>>,
    reports: watch::Sender<u64>,
}

impl Forward {
    fn listener(&self) -> MutexGuard<'_, Option<Arc<dyn Progress>>> {
        self.listener.lock()
    }
}

impl Progress for Forward {
    fn report(&self, message: &str, done: u64, total: Option<u64>) {
        self.reports.send_modify(|count| *count += 1);
        // Held while reporting: after `release` nothing may reach a call that has been answered.
        let listener = self.listener();
        if let Some(listener) = &*listener {
            listener.report(message, done, total);
        }
    }
}

/// What a start needs to know.
#[derive(Clone)]
pub(crate) struct Launcher {
    /// Starts a container for each guest.
    pub(crate) launch: Arc<dyn Launch>,
    /// Knows what guests are told at their start.
    pub(crate) broker: Arc<Broker>,
    /// Tasks that shutdown waits for.
    pub(crate) tasks: TaskTracker,
    /// The bridge is going down: guests that are started now are killed.
    pub(crate) closing: CancellationToken,
    /// Shutdown has waited long enough: starts give up at once.
    pub(crate) abandon: CancellationToken,
}

/// A guest that is being started.
pub(crate) struct Starting {
    task: JoinHandle<Result<RunningGuest, LaunchError>>,
    forward: Arc<Forward>,
}

impl Starting {
    /// Begins to start a guest for `session`, or a spare.
    pub(crate) fn new(launcher: &Launcher, session: Option<&str>) -> Self {
        let forward = Arc::new(Forward::default());
        let task = start(
            launcher.clone(),
            session.map(str::to_owned),
            Arc::clone(&forward),
        );
        Self {
            task: launcher.tasks.spawn(task),
            forward,
        }
    }

    /// Sends reports to `progress` from now on. The counter that is returned counts them; it is
    /// above zero where some were made before.
    pub(crate) fn listen(&self, progress: Arc<dyn Progress>) -> watch::Receiver<u64> {
        *self.forward.listener() = Some(progress);
        self.forward.reports.subscribe()
    }

    /// Stops sending reports to the call.
    pub(crate) fn release(&self) {
        *self.forward.listener() = None;
    }

    /// Waits for the guest. May be dropped and called again.
    pub(crate) async fn finish(&mut self) -> Result<RunningGuest, LaunchError> {
        (&mut self.task)
            .await
            .unwrap_or_else(|_| Err(failure("the start of the sandbox was cut short".into())))
    }

    /// Gives up at once.
    pub(crate) fn abort(self) {
        self.task.abort();
    }

    /// Waits for the guest and kills it.
    pub(crate) async fn discard(mut self) {
        if let Ok(mut guest) = self.finish().await {
            guest.container.kill().await;
        }
    }
}

async fn start(
    launcher: Launcher,
    session: Option<String>,
    forward: Arc<Forward>,
) -> Result<RunningGuest, LaunchError> {
    // Saved tools are read while the container starts. What changes meanwhile is told to a spare
    // when it is taken.
    let is_spare = session.is_none();
    let both = async {
        tokio::join!(
            launcher.launch.launch(session.as_deref(), &*forward),
            launcher
                .broker
                .begin_update(Seen::default(), &[Part::Tools])
        )
    };
    let (container, tools) = tokio::select! {
        biased;
        () = launcher.abandon.cancelled() => return Err(closed()),
        both = both => both,
    };
    let mut container = container?;
    let settled = tokio::select! {
        biased;
        () = launcher.closing.cancelled() => Err(closed()),
        settled = settle(&mut *container) => settled,
    };
    match settled {
        Ok((link, ready)) => {
            let mut guest = RunningGuest {
                container,
                link,
                memory_limit: ready.report.memory_max,
                cells: 0,
                ignored: 0,
                idle_from: 0,
                questions: FileQuestions::default(),
                sync: GuestSync::new(&launcher.broker),
            };
            let RunningGuest { sync, link, .. } = &mut guest;
            sync.take_update(link, tools.ok());
            if is_spare {
                // Nobody waits for it yet.
                sync.notify_files(link).await;
            }
            // A spare has read it all when it is needed. One that does not read is found out by its
            // first run.
            let _ = tokio::time::timeout(READY_LIMIT, link.sender.flush()).await;
            Ok(guest)
        }
        Err(error) => {
            container.kill().await;
            Err(error)
        }
    }
}

/// Attaches, waits for `ready` and has it checked.
async fn settle(container: &mut dyn Guest) -> Result<(Link, Ready), LaunchError> {
    let attached = container
        .attach()
        .ok_or_else(|| failure("the sandbox was not attached to".into()))?;
    let mut link = Link::new(ends(attached));
    let seen = tokio::time::timeout(READY_LIMIT, until_ready(&mut link)).await;
    let disconnect = match seen {
        Ok(Ok(ready)) if ready.protocol != PROTOCOL => {
            return Err(failure(format!(
                "the sandbox speaks version {} of the protocol, the bridge {PROTOCOL}; image and bridge do not fit \
                 together",
                ready.protocol
            )));
        }
        Ok(Ok(ready)) => {
            container.check(&ready.report)?;
            return Ok((link, ready));
        }
        Ok(Err(disconnect)) => Some(disconnect),
        Err(_) => None,
    };
    let what = match disconnect {
        None => format!("did not get ready within {} s", READY_LIMIT.as_secs()),
        Some(Disconnect::Broken(error)) => format!("broke its protocol at its start: {error}"),
        Some(Disconnect::Flood | Disconnect::Unread) => "broke its protocol at its start".into(),
        Some(Disconnect::Exit { .. } | Disconnect::Ended | Disconnect::Lost(_)) => {
            match tokio::time::timeout(EXIT_LIMIT, container.exit()).await {
                Ok(Ok(exit)) => format!("ended at its start: {}", ExitStatus(exit.code)),
                Ok(Err(_)) => "was lost with its container engine at its start".into(),
                Err(_) => "closed its output at its start".into(),
            }
        }
    };
    let words = link.receiver.last_words();
    let said = if words.is_empty() {
        String::new()
    } else {
        format!("; its last words: {words}")
    };
    Err(failure(format!("the sandbox {what}{said}")))
}

/// The ends of a container as the wire takes them.
fn ends(attached: Attached) -> Ends {
    let output = attached.output.map(|piece| match piece {
        Ok(engine::Output::Stdout(bytes)) => Ok(Output::Stdout(bytes)),
        Ok(engine::Output::Stderr(bytes)) => Ok(Output::Stderr(bytes)),
        Err(error) => Err(error.into()),
    });
    Ends {
        input: attached.input,
        output: output.boxed(),
    }
}

/// The first `ready`; what comes before it counts for nothing.
async fn until_ready(link: &mut Link) -> Result<Ready, Disconnect> {
    loop {
        match link.receiver.event().await {
            Event::Line(frame) => match FromGuest::parse(&frame) {
                Ok(FromGuest::Ready(ready)) => return Ok(ready),
                Ok(FromGuest::Exit {
                    code,
                    out_of_memory,
                }) => {
                    return Err(Disconnect::Exit {
                        code,
                        out_of_memory,
                    });
                }
                Ok(_) => {}
                Err(error) => return Err(Disconnect::Broken(error)),
            },
            Event::Ended => return Err(Disconnect::Ended),
            Event::Lost(error) => return Err(Disconnect::Lost(error)),
            Event::Broken(error) => return Err(Disconnect::Broken(error)),
        }
    }
}

/// A guest that could not be started.
pub(crate) fn failure(message: String) -> LaunchError {
    LaunchError {
        code: "G0",
        message,
    }
}

fn closed() -> LaunchError {
    failure("the bridge is shutting down".into())
}
