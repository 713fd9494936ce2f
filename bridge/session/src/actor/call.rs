//! A call that is being served: how much time it has, and how it waits for a start.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::api::{LaunchError, Progress, RunRequest};
use crate::guest::running::RunningGuest;
use crate::guest::start::Starting;
use crate::run::clock::{Clock, ClockStoppingClient};
use crate::run::ending::Stop;
use bridge_upstream::Interact;

/// Time that a start has from its beginning, or from its last report, to the next sign of progress.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(120);

/// Longer time limits are cut to this, which keeps clock arithmetic from overflowing.
pub(crate) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// A call that is being served.
pub(crate) struct ActiveCall<'a> {
    /// What the call asks for.
    pub(crate) request: &'a RunRequest,
    /// The client; its questions stop the clock.
    pub(crate) interact: Arc<dyn Interact>,
    clock: Arc<Clock>,
}

/// How waiting for a start ended.
pub(crate) enum Waited {
    /// The start succeeded or failed.
    Finished(Box<Result<RunningGuest, LaunchError>>),
    /// The call is to end early.
    Stopped(Stop),
    /// The start made no progress for too long.
    Stalled,
}

impl<'a> ActiveCall<'a> {
    /// A call whose clock begins now.
    pub(crate) fn new(request: &'a RunRequest) -> Self {
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
    pub(crate) async fn stop(&self, ticking: bool) -> Stop {
        tokio::select! {
            biased;
            () = self.request.cancel.cancelled() => Stop::Cancelled,
            () = self.clock.run_out(), if ticking => Stop::TimeLimit,
        }
    }

    /// Waits for a start. From the first report of a long phase on, the call's clock stands still.
    pub(crate) async fn wait_for(
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
