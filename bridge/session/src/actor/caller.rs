//! A call under way: until when it may take, and how it waits for a start.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::super::clock::{Clock, ClockStoppingClient};
use super::super::execution::Stop;
use super::super::start::{RunningGuest, Starting};
use super::super::{LaunchError, Progress, RunRequest};
use bridge_upstream::Interact;

/// For a start to make progress: from its beginning or from its last report to the next.
pub(super) const START_LIMIT: Duration = Duration::from_secs(120);

/// Longer time limits are cut to this; it keeps clock arithmetic from overflowing.
pub(super) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What a call may take.
pub(super) struct Caller<'a> {
    pub(super) request: &'a RunRequest,
    /// The client; its questions stop the clock.
    pub(super) interact: Arc<dyn Interact>,
    clock: Arc<Clock>,
}

/// How waiting for a start ended.
pub(super) enum Waited {
    Finished(Box<Result<RunningGuest, LaunchError>>),
    Stopped(Stop),
    Stalled,
}

impl<'a> Caller<'a> {
    /// Its clock begins now.
    pub(super) fn new(request: &'a RunRequest) -> Self {
        let clock = Clock::new(request.timeout.min(FOREVER));
        Self {
            request,
            interact: Arc::new(ClockStoppingClient {
                client: Arc::clone(&request.client.0),
                clock: Arc::clone(&clock),
            }),
            clock,
        }
    }

    /// Waits until the call is to end early; by its time limit only while the clock is `ticking`.
    pub(super) async fn stop(&self, ticking: bool) -> Stop {
        tokio::select! {
            biased;
            () = self.request.cancel.cancelled() => Stop::Cancelled,
            () = self.clock.run_out(), if ticking => Stop::Timeout,
        }
    }

    /// Waits for a start. From the first report of a long phase on, the call's clock stands still.
    pub(super) async fn wait_for(
        &mut self,
        starting: &mut Starting,
        progress: Arc<dyn Progress>,
    ) -> Waited {
        let mut reports = starting.listen(progress);
        let mut paused = (*reports.borrow_and_update() > 0).then(Instant::now);
        let stall = sleep_until(Instant::now() + START_LIMIT);
        tokio::pin!(stall);
        loop {
            tokio::select! {
                biased;
                result = starting.finish() => {
                    if let Some(paused) = paused {
                        self.clock.extend(paused.elapsed());
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
