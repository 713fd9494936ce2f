//! The time limit of one call. It stands still while a server's question waits for the person
//! behind the client, for [`HOLD_LIMIT`] in all: whoever answers slowly does not fail the run, and
//! a question that nobody answers does not keep a session for ever.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use bridge_common::Mutex;
use bridge_upstream::{Event, Interact, Question, Reply};

/// For how long, in all, open questions stop the clock of one call.
pub(crate) const HOLD_LIMIT: Duration = Duration::from_secs(10 * 60);

/// The clock of one call.
pub(crate) struct Clock {
    state: Mutex<ClockState>,
    changed: Notify,
}

struct ClockState {
    deadline: Instant,
    /// Number of open questions.
    open: usize,
    /// Since when at least one question has been open.
    since: Instant,
    /// For how long the clock may still be stopped.
    left: Duration,
}

impl ClockState {
    /// When time is up, as things are.
    fn end(&self) -> Instant {
        match self.open {
            0 => self.deadline,
            _ => self.deadline + self.left,
        }
    }
}

impl Clock {
    /// A clock whose time is up after `limit`.
    pub(crate) fn new(limit: Duration) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            state: Mutex::new(ClockState {
                deadline: now + limit,
                open: 0,
                since: now,
                left: HOLD_LIMIT,
            }),
            changed: Notify::new(),
        })
    }

    /// Moves the end of the time limit back.
    pub(crate) fn extend(&self, by: Duration) {
        self.lock().deadline += by;
        self.changed.notify_one();
    }

    /// Waits until time is up. Only one caller at a time may wait.
    pub(crate) async fn run_out(&self) {
        loop {
            let end = self.lock().end();
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(end) => {
                    if self.lock().end() <= Instant::now() {
                        return;
                    }
                }
            }
        }
    }

    /// Stops the clock until the returned guard is dropped.
    fn hold(self: &Arc<Self>) -> Hold {
        let mut state = self.lock();
        if state.open == 0 {
            state.since = Instant::now();
        }
        state.open += 1;
        drop(state);
        self.changed.notify_one();
        Hold(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock()
    }
}

struct Hold(Arc<Clock>);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        if state.open == 0 {
            let held = state.since.elapsed().min(state.left);
            state.deadline += held;
            state.left -= held;
        }
        drop(state);
        self.0.changed.notify_one();
    }
}

/// The client of a call; while it is asked something, the clock of the call stands still.
pub(crate) struct ClockStoppingClient {
    pub(crate) client: Arc<dyn Interact>,
    pub(crate) clock: Arc<Clock>,
}

#[async_trait]
impl Interact for ClockStoppingClient {
    fn offers(&self) -> Value {
        self.client.offers()
    }

    async fn request(&self, question: Question) -> Reply {
        let _held = self.clock.hold();
        self.client.request(question).await
    }

    fn notify(&self, event: Event) {
        self.client.notify(event);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    async fn seconds_until(clock: &Clock) -> u64 {
        let begun = Instant::now();
        let whole_day = Duration::from_secs(24 * 3600);
        timeout(whole_day, clock.run_out()).await.expect("an end");
        begun.elapsed().as_secs()
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[tokio::test(start_paused = true)]
    async fn time_with_an_open_question_does_not_count() {
        let clock = Clock::new(seconds(30));
        let asking = async {
            sleep(seconds(20)).await;
            let (one, two) = (clock.hold(), clock.hold());
            sleep(seconds(90)).await;
            drop(one);
            sleep(seconds(5)).await;
            drop(two);
        };
        let (end, ()) = tokio::join!(seconds_until(&clock), asking);
        assert_eq!(end, 30 + 95);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_stop_the_clock_up_to_the_hold_limit() {
        let clock = Clock::new(seconds(30));
        let _asked = clock.hold();
        assert_eq!(seconds_until(&clock).await, 30 + HOLD_LIMIT.as_secs());

        let clock = Clock::new(seconds(30));
        let asking = async {
            for _ in 0..20 {
                let _asked = clock.hold();
                sleep(seconds(60)).await;
            }
        };
        let (end, ()) = tokio::join!(seconds_until(&clock), asking);
        assert_eq!(end, 30 + HOLD_LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn extending_the_clock_moves_its_end() {
        let clock = Clock::new(seconds(30));
        clock.extend(seconds(10));
        assert_eq!(seconds_until(&clock).await, 40);
    }
}
