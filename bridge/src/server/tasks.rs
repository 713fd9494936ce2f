//! MCP Tasks: a client that offers the extension gets a task instead of an answer where a run takes long, and polls it.
//!
//! Tasks are runs by another name: one registry holds both.

use std::time::{Duration, SystemTime};

use rmcp::RoleServer;
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorData, GetTaskResult, JsonObject, Task, TaskPayload,
    TaskStatus,
};
use rmcp::service::RequestContext;
use serde_json::Value;

use super::{Refused, Server};
use crate::render::Payload;
use crate::session::{KEPT_FOR, Run, Status};

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
            let payload = match run.peek().map_err(Refused::from) {
                Ok(outcome) if outcome.status == Status::Cancelled => None,
                Ok(outcome) => {
                    let outcome = crate::session::RunOutcome {
                        run: None,
                        ..outcome
                    };
                    Some(Payload::of_run(outcome, false, run.text_bytes()))
                }
                Err(refused) => Some(refused.into_payload()),
            };
            match payload {
                None => TaskPayload::Cancelled,
                Some(payload) => TaskPayload::Completed {
                    result: self.written(payload)?,
                },
            }
        } else {
            TaskPayload::Working
        };
        let task = task(&run, payload.status());
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    fn written(&self, payload: Payload) -> Result<JsonObject, ErrorData> {
        match serde_json::to_value(self.answer(payload)) {
            Ok(Value::Object(result)) => Ok(result),
            Ok(_) | Err(_) => Err(ErrorData::internal_error("answer not written", None)),
        }
    }

    /// Interrupts it; how it then ends is seen by asking again.
    pub(super) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        self.known(id).map(|run| run.cancel())
    }

    /// The run of this name.
    pub(super) fn known(&self, id: &str) -> Result<std::sync::Arc<Run>, ErrorData> {
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

/// As ISO 8601 wants it, in UTC.
fn timestamp(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_millis()
    )
}

/// Year, month and day of a day since 1970. Years are counted from March, so that a leap day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // 1970-01-01 is this day of the era that began on 0000-03-01.
    let days = days + 719_468;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let check = |days: u64, expected: (u64, u64, u64)| assert_eq!(date(days), expected);
        check(0, (1970, 1, 1));
        check(59, (1970, 3, 1));
        check(11_016, (2000, 2, 29));
        check(11_017, (2000, 3, 1));
        check(20_786, (2026, 11, 29));
        check(47_540, (2100, 2, 28));
        check(47_541, (2100, 3, 1));
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_989_769_042);
        assert_eq!(timestamp(time), "2026-11-29T22:02:49.042Z");
    }
}
