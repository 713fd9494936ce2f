//! One run, from the moment it is asked for until its result is forgotten. Whoever has it can wait, read what it has written
//! so far, cancel it, or leave it running; the session's task writes into it and ends it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::capture::{Capture, Position};
use super::name::SessionName;
use super::queue::Queue;
use super::{Error, RunOutcome, RunRequest};

/// Characters of a name: 50 random bits.
const ID: usize = 10;

/// One run.
pub struct Run {
    id: String,
    session: SessionName,
    timeout: Duration,
    text_bytes: u64,
    asked: Instant,
    asked_at: SystemTime,
    cancel: CancellationToken,
    queue: Arc<Queue>,
    left_running: AtomicBool,
    ended: watch::Sender<bool>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// What it has written.
    output: Capture,
    /// What of it has been read.
    seen: Position,
    /// The result has been read.
    told: bool,
    end: Option<End>,
}

struct End {
    when: Instant,
    at: SystemTime,
    /// Without the output.
    result: Result<RunOutcome, Error>,
}

impl Run {
    /// A run that waits in `queue`. It is cancelled by the token of its request.
    pub(super) fn new(session: SessionName, request: &RunRequest, queue: Arc<Queue>) -> Arc<Self> {
        Arc::new(Self {
            id: bridge_common::random::word(ID).unwrap_or_else(|error| {
                tracing::warn!(%error, "no random names; runs are named by the time");
                format!("{:x}", nanos(SystemTime::now()))
            }),
            session,
            timeout: request.timeout,
            text_bytes: request.text_bytes,
            asked: Instant::now(),
            asked_at: SystemTime::now(),
            cancel: request.cancel.clone(),
            queue,
            left_running: AtomicBool::new(false),
            ended: watch::Sender::new(false),
            inner: Mutex::default(),
        })
    }

    /// Its name, by which it is found again.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The session that it belongs to.
    pub fn session(&self) -> &str {
        self.session.as_str()
    }

    /// Its time limit.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Bytes of text that the call wanted to be answered at most.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// When it was asked for, and when it ended.
    pub fn times(&self) -> (SystemTime, Option<SystemTime>) {
        (self.asked_at, self.lock().end.as_ref().map(|end| end.at))
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until it has ended. Unless it was left running itself, it waits for its turn behind a run that was left running
    /// no longer than its own time limit, and ends without having begun.
    pub async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        let is_impatient = !self.is_left_running();
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => return,
            () = self.cancel.cancelled() => self.withdraw(Answer::withdrawn),
            other = self.held_up(), if is_impatient => {
                self.withdraw(|| Answer::held_up(&other, self.timeout));
            }
        }
        // The sender is ours and lives.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Waits for the moment when a run of the same session that was left running has kept this one from beginning for as
    /// long as this one may take.
    async fn held_up(&self) -> String {
        let mut holder = self.queue.holder();
        loop {
            let other = holder.borrow_and_update().clone();
            if let Some(other) = other {
                tokio::select! {
                    () = sleep(self.timeout) => return other,
                    _ = holder.changed() => {}
                }
            } else if holder.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// From now on nobody needs to wait for it: it goes on until it ends, is cancelled, or reaches its limit.
    pub fn leave_running(&self) {
        self.left_running.store(true, Ordering::SeqCst);
        self.queue.note_left_running(self);
    }

    /// Whether it was left running.
    pub(super) fn is_left_running(&self) -> bool {
        self.left_running.load(Ordering::SeqCst)
    }

    /// Interrupts it; where it has not begun, it never will.
    pub fn cancel(&self) {
        self.cancel.cancel();
        self.withdraw(Answer::withdrawn);
    }

    fn withdraw(&self, answer: impl FnOnce() -> Answer) {
        if let Some(call) = self.queue.withdraw(self) {
            let outcome = answer().outcome(&self.session, None, self.timeout);
            call.reply.finish(Ok(outcome));
        }
    }

    /// Whoever holds this waits for the run: where it is dropped before the end, the run is cancelled, unless it was left
    /// running.
    pub fn attend(self: &Arc<Self>) -> CancelOnDrop {
        CancelOnDrop(Arc::clone(self))
    }

    /// The result, or how it stands; output from where the last reading ended. Once the result has been read, reading again
    /// repeats it with all of the output: the answer that had it may have been lost.
    pub fn read(&self) -> Result<RunOutcome, Error> {
        let mut inner = self.lock();
        let from = if inner.told {
            Position::default()
        } else {
            inner.seen
        };
        inner.told = inner.end.is_some();
        inner.seen = inner.output.position();
        self.outcome(&inner, from)
    }

    /// Likewise, whole, and not counted as reading.
    pub fn peek(&self) -> Result<RunOutcome, Error> {
        self.outcome(&self.lock(), Position::default())
    }

    fn outcome(&self, inner: &Inner, from: Position) -> Result<RunOutcome, Error> {
        let outcome = if let Some(end) = &inner.end {
            end.result.clone()?
        } else {
            let note = self.queue.holder_of(self);
            let note = note.map(|other| format!("waits for run {other:?} of the same session"));
            Answer::running().outcome(&self.session, note, self.timeout)
        };
        let output = inner.output.after(from);
        Ok(RunOutcome {
            stdout: output.stdout,
            stderr: output.stderr,
            displays: output.displays,
            // Others have been answered already, or will be.
            run: self.is_left_running().then(|| self.id.clone()),
            elapsed: self.asked.elapsed(),
            ..outcome
        })
    }

    /// What it writes goes here.
    pub(super) fn with_output<T>(&self, act: impl FnOnce(&mut Capture) -> T) -> T {
        act(&mut self.lock().output)
    }

    /// Ends it.
    pub(super) fn finish(&self, result: Result<RunOutcome, Error>) {
        let mut inner = self.lock();
        if inner.end.is_none() {
            inner.end = Some(End {
                when: Instant::now(),
                at: SystemTime::now(),
                result,
            });
        }
        drop(inner);
        self.ended.send_replace(true);
    }

    /// How long ago it ended, and the bytes that it keeps.
    pub(super) fn kept(&self) -> Option<(Duration, usize)> {
        let inner = self.lock();
        let end = inner.end.as_ref()?;
        let result = end.result.as_ref().ok();
        let result = result.and_then(|outcome| outcome.result.as_ref());
        Some((
            end.when.elapsed(),
            inner.output.bytes() + result.map_or(0, String::len),
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Run({:?})", self.id)
    }
}

/// See [`Run::attend`].
pub struct CancelOnDrop(Arc<Run>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.0.is_left_running() && !self.0.is_ended() {
            self.0.cancel();
        }
    }
}

/// An answer that is owed: a run whose call is dropped without an answer ends all the same.
pub(super) struct PendingReply {
    run: Arc<Run>,
    closing: CancellationToken,
}

impl PendingReply {
    /// Of this run. Where `closing` has fired, that is why there is no answer.
    pub(super) fn new(run: Arc<Run>, closing: CancellationToken) -> Self {
        Self { run, closing }
    }

    /// The run.
    pub(super) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Gives the answer.
    pub(super) fn finish(self, result: Result<RunOutcome, Error>) {
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

fn nanos(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos())
}
