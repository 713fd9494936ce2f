//! MCP Tasks: a client that offers the extension gets a task instead of an answer where a run takes long, and polls it.
//!
//! Tasks are runs by another name: one registry holds both.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rmcp::RoleServer;
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorData, GetTaskResult, Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;

use super::{Rejected, Server};
use bridge_render::Rendered;
use bridge_session::{KEPT_FOR, Run, Status};
use bridge_store::Timestamp;

/// Shorter runs are answered as ever, which saves the client a round.
pub(super) const BECOMES_TASK_AFTER: Duration = Duration::from_secs(3);

/// Between two questions of the client.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the client can keep a task.
pub(super) fn are_offered_by(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    capabilities.is_some_and(|capabilities| capabilities.supports_tasks())
}

/// The answer that is a task.
pub(super) fn created(run: &Run) -> CreateTaskResult {
    CreateTaskResult::new(task(run, TaskStatus::Working))
}

impl Server {
    /// How a task stands, with the call's result once it has ended.
    pub(super) fn task(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        let run = self.known(id)?;
        let payload = if run.is_ended() {
            match run.peek().map_err(Rejected::from) {
                Ok(outcome) if outcome.status() == Status::Cancelled => TaskPayload::Cancelled,
                Ok(mut outcome) => {
                    // The client has the task's name.
                    outcome.identity.run = None;
                    let answer = Rendered::of_run(&outcome, false, run.text_bytes());
                    TaskPayload::Completed {
                        result: self.written(&answer)?,
                    }
                }
                Err(rejected) => TaskPayload::Completed {
                    result: self.written(&rejected.to_rendered())?,
                },
            }
        } else {
            TaskPayload::Working
        };
        let task = task(&run, payload.status());
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    /// Interrupts it; how it then ends is seen by asking again.
    pub(super) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        self.known(id).map(|run| run.cancel())
    }

    /// The run of this name.
    pub(super) fn known(&self, id: &str) -> Result<Arc<Run>, ErrorData> {
        self.runner
            .find(id, None)
            .map_err(|refused| ErrorData::invalid_params(refused.to_string(), None))
    }
}

fn task(run: &Run, status: TaskStatus) -> Task {
    let (asked, ended) = run.times();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Task::new(
        run.id(),
        status,
        timestamp(asked),
        timestamp(ended.unwrap_or(asked)),
    )
    // Waiting for its turn does not count, so that this is the least.
    .with_ttl_ms(millis(run.timeout() + KEPT_FOR))
    .with_poll_interval_ms(millis(POLL_INTERVAL))
}

/// As ISO 8601 wants it, in UTC, with milliseconds.
fn timestamp(time: SystemTime) -> String {
    format!("{:.3}", Timestamp::from(time))
}
