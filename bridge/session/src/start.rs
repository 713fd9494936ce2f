//! Starting a guest in a task of its own, so that a call that gives up costs no started guest: the next call takes it.
//!
//! A [`Starting`] is also what waits as the spare.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ending::{Death, status};
use super::files::Questions;
use super::kept::Known;
use super::{Guest, Launch, LaunchError, Progress};
use bridge_broker::Broker;
use bridge_engine::{self as engine, Attached};
use bridge_store::{Part, Seen};
use bridge_wire::{Ends, Event, FromGuest, Link, Output, PROTOCOL, Ready};

/// From attached to `ready`. A guest needs some 40 ms; this is for machines in deep trouble.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// For a guest that has closed its output to be dead.
pub(super) const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// A started, checked guest.
pub(super) struct RunningGuest {
    /// The container.
    pub(super) guest: Box<dyn Guest>,
    /// Its two directions.
    pub(super) link: Link,
    /// The memory limit that its cgroup enforces.
    pub(super) memory_limit: Option<u64>,
    /// Cells it has been given.
    pub(super) cells: u64,
    /// Meaningless frames since the last run began.
    pub(super) ignored: u32,
    /// Bytes received when the last run ended.
    pub(super) idle_from: u64,
    /// What is asked of its files.
    pub(super) questions: Questions,
    /// What it knows of what outlives it.
    pub(super) known: Known,
}

impl RunningGuest {
    /// Kills it in a task, which must not be cut short.
    pub(super) fn kill(mut self, tasks: &TaskTracker) -> JoinHandle<()> {
        tasks.spawn(async move { self.guest.kill().await })
    }
}

/// Passes reports on to the call that waits for the start, while one does.
#[derive(Default)]
struct Forward {
    listener: Mutex<Option<Arc<dyn Progress>>>,
    reports: watch::Sender<u64>,
}

impl Forward {
    fn listener(&self) -> MutexGuard<'_, Option<Arc<dyn Progress>>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
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
pub(super) struct Launcher {
    /// Starts guests.
    pub(super) launch: Arc<dyn Launch>,
    /// Knows what they are to be told at their start.
    pub(super) broker: Arc<Broker>,
    /// Tasks that shutdown waits for.
    pub(super) tasks: TaskTracker,
    /// The bridge is going down: what is started now is killed.
    pub(super) closing: CancellationToken,
    /// It has waited long enough: give up at once.
    pub(super) abandon: CancellationToken,
}

/// A guest on its way.
pub(super) struct Starting {
    task: JoinHandle<Result<RunningGuest, LaunchError>>,
    forward: Arc<Forward>,
}

impl Starting {
    /// Begins.
    pub(super) fn new(launcher: &Launcher, session: Option<&str>) -> Self {
        let forward = Arc::new(Forward::default());
        let task = start(
            (Arc::clone(&launcher.launch), Arc::clone(&launcher.broker)),
            session.map(str::to_owned),
            Arc::clone(&forward),
            (launcher.closing.clone(), launcher.abandon.clone()),
        );
        Self {
            task: launcher.tasks.spawn(task),
            forward,
        }
    }

    /// Sends reports to `progress` from now on. The counter that comes back tells of each; it is above zero where some
    /// were made before.
    pub(super) fn listen(&self, progress: Arc<dyn Progress>) -> watch::Receiver<u64> {
        *self.forward.listener() = Some(progress);
        self.forward.reports.subscribe()
    }

    /// Sends reports to nobody.
    pub(super) fn release(&self) {
        *self.forward.listener() = None;
    }

    /// Waits for the guest; may be dropped and called again.
    pub(super) async fn finish(&mut self) -> Result<RunningGuest, LaunchError> {
        (&mut self.task)
            .await
            .unwrap_or_else(|_| Err(failure("the start of the sandbox was cut short".into())))
    }

    /// Gives up at once.
    pub(super) fn abort(self) {
        self.task.abort();
    }

    /// Waits for the guest and kills it.
    pub(super) async fn discard(mut self) {
        if let Ok(mut live) = self.finish().await {
            live.guest.kill().await;
        }
    }
}

async fn start(
    (launch, broker): (Arc<dyn Launch>, Arc<Broker>),
    session: Option<String>,
    forward: Arc<Forward>,
    (closing, abandon): (CancellationToken, CancellationToken),
) -> Result<RunningGuest, LaunchError> {
    // Saved tools are read while the container starts. What changes meanwhile is told to a spare when it is taken.
    let is_spare = session.is_none();
    let both = async {
        tokio::join!(
            launch.launch(session.as_deref(), &*forward),
            broker.update(Seen::default(), &[Part::Tools])
        )
    };
    let (guest, kept) = tokio::select! {
        biased;
        () = abandon.cancelled() => return Err(closed()),
        both = both => both,
    };
    let mut guest = guest?;
    let settled = tokio::select! {
        biased;
        () = closing.cancelled() => Err(closed()),
        settled = settle(&mut *guest) => settled,
    };
    match settled {
        Ok((link, ready)) => {
            let mut live = RunningGuest {
                guest,
                link,
                memory_limit: ready.report.memory_max,
                cells: 0,
                ignored: 0,
                idle_from: 0,
                questions: Questions::default(),
                known: Known::new(&broker),
            };
            live.take_update(kept);
            if is_spare {
                // Nobody waits for it yet.
                live.tell_files().await;
            }
            // A spare has read it all when it is needed. One that does not read is found out by its first run.
            let _ = tokio::time::timeout(READY_LIMIT, live.link.sender.flush()).await;
            Ok(live)
        }
        Err(error) => {
            guest.kill().await;
            Err(error)
        }
    }
}

/// Attaches, waits for `ready` and has it checked.
async fn settle(guest: &mut dyn Guest) -> Result<(Link, Ready), LaunchError> {
    let attached = guest
        .attach()
        .ok_or_else(|| failure("the sandbox was not attached to".into()))?;
    let mut link = Link::new(ends(attached));
    let seen = tokio::time::timeout(READY_LIMIT, until_ready(&mut link)).await;
    let death = match seen {
        Ok(Ok(ready)) if ready.protocol != PROTOCOL => {
            return Err(failure(format!(
                "the sandbox speaks version {} of the protocol, the bridge {PROTOCOL}; image and bridge do not fit together",
                ready.protocol
            )));
        }
        Ok(Ok(ready)) => {
            guest.check(&ready.report)?;
            return Ok((link, ready));
        }
        Ok(Err(death)) => Some(death),
        Err(_) => None,
    };
    let what = match death {
        None => format!("did not get ready within {} s", READY_LIMIT.as_secs()),
        Some(Death::Broken(error)) => format!("broke its protocol at its start: {error}"),
        Some(Death::Flood | Death::Unread) => "broke its protocol at its start".into(),
        Some(Death::Exit { .. } | Death::Ended | Death::Lost(_)) => {
            match tokio::time::timeout(EXIT_LIMIT, guest.exit()).await {
                Ok(Ok(exit)) => format!("ended at its start: {}", status(exit.code)),
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
async fn until_ready(link: &mut Link) -> Result<Ready, Death> {
    loop {
        match link.receiver.event().await {
            Event::Line(frame) => match FromGuest::parse(&frame) {
                Ok(FromGuest::Ready(ready)) => return Ok(ready),
                Ok(FromGuest::Exit {
                    code,
                    out_of_memory,
                }) => {
                    return Err(Death::Exit {
                        code,
                        out_of_memory,
                    });
                }
                Ok(_) => {}
                Err(error) => return Err(Death::Broken(error)),
            },
            Event::Ended => return Err(Death::Ended),
            Event::Lost(error) => return Err(Death::Lost(error)),
            Event::Broken(error) => return Err(Death::Broken(error)),
        }
    }
}

/// A guest that could not be started.
pub(super) fn failure(message: String) -> LaunchError {
    LaunchError {
        code: "G0",
        message,
    }
}

fn closed() -> LaunchError {
    failure("the bridge is shutting down".into())
}
