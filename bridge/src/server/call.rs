//! One call, from its arguments to its answer: begins a run or finds one of before, waits as long as the call may, and leaves
//! the run running where it is to go on.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::CallToolResponse;
use rmcp::service::RequestContext;
use tokio::time::sleep;

use super::arguments::Arguments;
use super::progress::{self, Reports};
use super::{Refused, Server, tasks};
use crate::render::Payload;
use crate::session::{Run, RunOutcome};

/// How waiting for a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// The run did.
    Ended,
    /// The time to wait is over.
    Enough,
    /// The client no longer waits.
    GivenUp,
}

impl Server {
    /// One call.
    pub(super) async fn call(
        &self,
        arguments: Arguments,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let named = arguments.session.is_some();
        let answered = match arguments.run.clone() {
            Some(id) => self.come_back(&id, &arguments, context).await,
            None => match self.begin(arguments, context).await {
                Ok(Answered::Task(run)) => return tasks::created(&run).into(),
                Ok(Answered::Outcome(outcome)) => Ok(*outcome),
                Err(refused) => Err(refused),
            },
        };
        self.answer(match answered {
            Ok(outcome) => Payload::of_run(outcome, named, self.face.output_bytes),
            Err(refused) => refused.into_payload(),
        })
        .into()
    }

    /// Begins a run. Until it is left running, it is the call's own: who cancels the call cancels it.
    async fn begin(
        &self,
        arguments: Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answered, Refused> {
        let yield_after = arguments.yield_after;
        let request = arguments.into_request(self.closing.child_token());
        let (reporter, mut reports) = progress::channel(context);
        let run = self.runner.start(request, Arc::new(reporter))?;
        // Covers the case that this future is dropped.
        let _attendance = run.attend();
        // A model that asks to be answered early means itself; a client that can keep a task keeps it for the model.
        let becomes_task = yield_after.is_none() && tasks::are_offered_by(context);
        let limit = yield_after.or_else(|| becomes_task.then_some(tasks::BECOMES_TASK_AFTER));
        let given_up = context.ct.cancelled();
        let mut waited = wait(&run, limit, given_up, &mut reports).await;
        if waited == Waited::GivenUp {
            run.cancel();
            waited = wait(&run, None, pending(), &mut reports).await;
        }
        if waited == Waited::Enough {
            run.leave_running();
            if becomes_task {
                return Ok(Answered::Task(run));
            }
        }
        Ok(Answered::Outcome(Box::new(run.read()?)))
    }

    /// Waits for a run of before, or cancels it. Who cancels this call only waits no longer.
    async fn come_back(
        &self,
        id: &str,
        arguments: &Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<RunOutcome, Refused> {
        let run = self.runner.find(id, arguments.session.as_deref())?;
        if arguments.cancel {
            run.cancel();
        }
        let (_, mut reports) = progress::channel(context);
        let limit = arguments.yield_after.unwrap_or(arguments.timeout);
        match wait(&run, Some(limit), context.ct.cancelled(), &mut reports).await {
            // Nobody reads this answer: what it would have told is still to be read.
            Waited::GivenUp => Ok(run.peek()?),
            Waited::Ended | Waited::Enough => Ok(run.read()?),
        }
    }
}

/// What a new run came to.
enum Answered {
    Outcome(Box<RunOutcome>),
    Task(Arc<Run>),
}

/// Waits until the run has ended, `limit` is over, or the client has given up.
async fn wait(
    run: &Run,
    limit: Option<Duration>,
    given_up: impl Future<Output = ()>,
    reports: &mut Reports,
) -> Waited {
    let mut ended = pin!(run.ended());
    let mut given_up = pin!(given_up);
    let mut enough = pin!(sleep(limit.unwrap_or_default()));
    loop {
        tokio::select! {
            biased;
            () = &mut ended => return Waited::Ended,
            () = &mut given_up => return Waited::GivenUp,
            () = &mut enough, if limit.is_some() => return Waited::Enough,
            notification = reports.next() => reports.send(notification).await,
        }
    }
}
