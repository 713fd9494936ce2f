//! One run, from the moment it is asked for until its result is forgotten. Whoever has it can wait,
//! read what it has written so far, cancel it, or leave it running; the session's task writes into
//! it and ends it.

pub(crate) mod capture;
pub(crate) mod clock;
pub(crate) mod display;
pub(crate) mod ending;
pub(crate) mod exit_status;
pub(crate) mod notes;
pub(crate) mod outcome;
pub(crate) mod queue;
pub(crate) mod slot;
pub(crate) mod table;

use std::fmt;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::capture::{Capture, Position};
use self::ending::{Ending, Obstacle};
use self::notes::Note;
use self::outcome::{RunEnd, RunIdentity, RunOutcome, RunOutput};
use self::slot::{CurrentRun, Slot};
use crate::api::{Error, RunRequest};
use crate::name::SessionName;
use bridge_broker::Summary;
use bridge_common::Mutex;

/// Characters of a run's name: 50 random bits.
const ID: usize = 10;

/// One run of code, whether it waits, runs or has ended.
pub struct Run {
    id: String,
    session: SessionName,
    timeout: Duration,
    text_bytes: u64,
    asked: Instant,
    asked_at: SystemTime,
    cancel: CancellationToken,
    slot: Slot,
    left_running: watch::Sender<bool>,
    ended: watch::Sender<bool>,
    progress: Mutex<RunProgress>,
}

#[derive(Default)]
struct RunProgress {
    /// What the run has written.
    output: Capture,
    /// How much of the output has been read.
    seen: Position,
    /// The result has been read.
    told: bool,
    end: Option<End>,
}

struct End {
    when: Instant,
    at: SystemTime,
    result: Result<RunEnd, Error>,
}

impl Run {
    /// A run that waits in `slot`. The token of its request cancels it.
    pub(crate) fn new(
        session: SessionName,
        request: &RunRequest,
        slot: Slot,
    ) -> Result<Arc<Self>, Error> {
        let id = bridge_common::random::word(ID).map_err(|error| Error::NoRandomName {
            reason: error.to_string(),
        })?;
        Ok(Arc::new(Self {
            id,
            session,
            timeout: request.timeout,
            text_bytes: request.text_bytes,
            asked: Instant::now(),
            asked_at: SystemTime::now(),
            cancel: request.cancel.clone(),
            slot,
            left_running: watch::Sender::new(false),
            ended: watch::Sender::new(false),
            progress: Mutex::default(),
        }))
    }

    /// Name by which the run is found again.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Name of the session that the run belongs to.
    pub fn session(&self) -> &str {
        self.session.as_str()
    }

    /// Time limit of the run.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Bytes of text that the call wants in its answer at most.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// When the run was asked for, and when it ended.
    pub fn times(&self) -> (SystemTime, Option<SystemTime>) {
        (self.asked_at, self.lock().end.as_ref().map(|end| end.at))
    }

    /// Whether the run has ended.
    pub fn is_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until the run has ended, and changes nothing.
    pub async fn ended(&self) {
        // The sender is part of this run and lives.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Waits until the run has ended, on behalf of a caller whose patience ends: see
    /// [`Run::give_up_if_held`].
    pub async fn ended_or_given_up(&self) {
        tokio::select! {
            biased;
            () = self.ended() => return,
            () = self.give_up_if_held() => {}
        }
        self.ended().await;
    }

    /// Ends a run that waits for its turn without starting it, once its client has given up, or
    /// once a run that was left running has kept it from starting for as long as it may take
    /// itself. A run that was left running is patient.
    pub async fn give_up_if_held(&self) {
        let is_impatient = !self.is_left_running();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => self.withdraw(Obstacle::Withdrawn),
            behind = self.slot.blocked_for(self.timeout), if is_impatient => {
                self.withdraw(Obstacle::HeldUp { behind });
            }
        }
    }

    /// From now on nobody needs to wait for the run: it goes on until it ends, is cancelled, or
    /// reaches its limit.
    pub fn leave_running(&self) {
        self.left_running.send_replace(true);
    }

    /// Whether the run was left running.
    pub(crate) fn is_left_running(&self) -> bool {
        *self.left_running.borrow()
    }

    /// Interrupts the run; where it has not begun, it never will.
    pub fn cancel(&self) {
        self.cancel.cancel();
        self.withdraw(Obstacle::Withdrawn);
    }

    /// Ends the run if it still waits for its turn.
    fn withdraw(&self, obstacle: Obstacle) {
        if self.slot.take().is_some() {
            self.finish(Ok(Ending::not_started(obstacle).into()));
        }
    }

    /// A guard for whoever waits for the run: dropping it before the end cancels the run, unless
    /// that was left running.
    pub fn attend(self: &Arc<Self>) -> CancelOnDrop {
        CancelOnDrop(Arc::clone(self))
    }

    /// The result, or how the run stands; output from where the last reading ended. Once the result
    /// has been read, reading again repeats it with all of the output, because the answer that had
    /// it may have been lost.
    pub fn read(&self) -> Result<RunOutcome, Error> {
        let mut progress = self.lock();
        let from = if progress.told {
            Position::default()
        } else {
            progress.seen
        };
        progress.told = progress.end.is_some();
        progress.seen = progress.output.position();
        self.outcome(&progress, from)
    }

    /// The whole result, or how the run stands, without counting as a reading.
    pub fn peek(&self) -> Result<RunOutcome, Error> {
        self.outcome(&self.lock(), Position::default())
    }

    fn outcome(&self, progress: &RunProgress, from: Position) -> Result<RunOutcome, Error> {
        let end = match &progress.end {
            Some(end) => end.result.clone()?,
            None => RunEnd {
                notes: self
                    .slot
                    .blocker()
                    .map(Note::WaitsBehind)
                    .into_iter()
                    .collect(),
                ..Ending::Running.into()
            },
        };
        let Capture {
            stdout,
            stderr,
            displays,
        } = progress.output.after(from);
        Ok(RunOutcome {
            identity: RunIdentity {
                session: self.session().to_owned(),
                cell: end.cell,
                servers: end.servers,
                // The caller of any other run has been answered already, or will be.
                run: self.is_left_running().then(|| self.id.clone()),
                timeout: self.timeout,
                elapsed: self.asked.elapsed(),
            },
            ending: end.ending,
            output: RunOutput {
                stdout,
                stderr,
                displays,
                files: end.files,
            },
            notes: end.notes,
            calls: end.calls,
        })
    }

    /// Gives access to what the run writes.
    pub(crate) fn with_output<T>(&self, act: impl FnOnce(&mut Capture) -> T) -> T {
        act(&mut self.lock().output)
    }

    /// Ends the run; a second end is ignored.
    pub(crate) fn finish(&self, result: Result<RunEnd, Error>) {
        let mut progress = self.lock();
        if progress.end.is_none() {
            progress.end = Some(End {
                when: Instant::now(),
                at: SystemTime::now(),
                result,
            });
        }
        drop(progress);
        self.ended.send_replace(true);
    }

    /// How long ago the run ended, and the bytes that it keeps.
    pub(crate) fn kept(&self) -> Option<(Duration, usize)> {
        let progress = self.lock();
        let end = progress.end.as_ref()?;
        let result = end.result.as_ref().ok();
        let result = result.and_then(|end| end.ending.result());
        Some((
            end.when.elapsed(),
            progress.output.bytes() + result.map_or(0, str::len),
        ))
    }

    fn lock(&self) -> MutexGuard<'_, RunProgress> {
        self.progress.lock()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Run({:?})", self.id)
    }
}

/// Cancels a run when it is dropped; see [`Run::attend`].
pub struct CancelOnDrop(Arc<Run>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.0.is_left_running() && !self.0.is_ended() {
            self.0.cancel();
        }
    }
}

/// An answer that a run is waiting for. A run whose reply is dropped without an answer ends all the
/// same.
pub(crate) struct PendingReply {
    run: Arc<Run>,
    closing: CancellationToken,
}

impl PendingReply {
    /// The reply to this run. If `closing` has fired, a missing answer means that the bridge is
    /// shutting down.
    pub(crate) fn new(run: Arc<Run>, closing: CancellationToken) -> Self {
        Self { run, closing }
    }

    /// The run that waits.
    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// The slot that the run waits in.
    fn slot(&self) -> &Slot {
        &self.run.slot
    }

    /// The run as those see it that wait behind it.
    fn as_current(&self) -> CurrentRun {
        CurrentRun {
            id: self.run.id.clone(),
            left_running: self.run.left_running.subscribe(),
            cancel: self.run.cancel.clone(),
        }
    }

    /// Ends the run with this answer.
    pub(crate) fn finish(self, result: Result<RunEnd, Error>) {
        self.run.finish(result);
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        if self.run.is_ended() {
            return;
        }
        self.run.finish(Err(if self.closing.is_cancelled() {
            Error::ShuttingDown
        } else {
            Error::Bug {
                session: self.run.session().to_owned(),
            }
        }));
    }
}

/// The outcome of a call whose client had given up before there was a run.
pub(crate) fn withdrawn(session: &SessionName, timeout: Duration) -> RunOutcome {
    RunOutcome {
        identity: RunIdentity {
            session: session.as_str().to_owned(),
            timeout,
            ..RunIdentity::default()
        },
        ending: Ending::not_started(Obstacle::Withdrawn),
        output: RunOutput::default(),
        notes: Vec::new(),
        calls: Summary::default(),
    }
}
