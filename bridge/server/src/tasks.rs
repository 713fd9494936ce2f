//! MCP tasks: a client that supports the extension gets a task instead of an answer when a run
//! takes long, and polls it.
//!
//! A task is a run under the protocol's name: the registry of runs holds both.

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

/// A run becomes a task after this long; a shorter one is answered directly, which saves a request.
pub(super) const BECOMES_TASK_AFTER: Duration = Duration::from_secs(3);

/// How often the client is asked to poll.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the client supports tasks.
pub(super) fn are_supported_by(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    capabilities.is_some_and(|capabilities| capabilities.supports_tasks())
}

/// The answer that hands the client a task.
pub(super) fn created(run: &Run) -> CreateTaskResult {
    CreateTaskResult::new(task(run, TaskStatus::Working))
}

impl Server {
    /// The state of a task, with the result of the call once the run has ended.
    pub(super) fn task(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        let run = self.find_task(id)?;
        let payload = if run.is_ended() {
            match run.peek().map_err(Rejected::from) {
                Ok(outcome) if outcome.status() == Status::Cancelled => TaskPayload::Cancelled,
                Ok(mut outcome) => {
                    // The client knows the task's name already.
                    outcome.identity.run = None;
                    let answer = Rendered::of_run(&outcome, false, run.text_bytes());
                    TaskPayload::Completed {
                        result: self.answer_json(&answer)?,
                    }
                }
                Err(rejected) => TaskPayload::Completed {
                    result: self.answer_json(&rejected.to_rendered())?,
                },
            }
        } else {
            TaskPayload::Working
        };
        let task = task(&run, payload.status());
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    /// Interrupts the run of a task. The client polls for how it ends.
    pub(super) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        self.find_task(id).map(|run| run.cancel())
    }

    /// Finds the run of a task.
    pub(super) fn find_task(&self, id: &str) -> Result<Arc<Run>, ErrorData> {
        self.runner
            .find(id, None)
            .map_err(|rejected| ErrorData::invalid_params(rejected.to_string(), None))
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
    // A lower bound: the time that the run waits in its queue is not counted.
    .with_ttl_ms(millis(run.timeout() + KEPT_FOR))
    .with_poll_interval_ms(millis(POLL_INTERVAL))
}

/// ISO 8601 in UTC, with milliseconds.
fn timestamp(time: SystemTime) -> String {
    format!("{:.3}", Timestamp::from(time))
}
