//! One call, from its arguments to its answer: begins a run, or finds one of before, waits as long as the call may, and leaves
//! the run running where it is to go on.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, InputRequiredResult, InputResponses};
use rmcp::service::RequestContext;
use tokio::time::sleep;

use super::arguments::Arguments;
use super::inbox::Inbox;
use super::progress::{Reports, Steps};
use super::relay::{self, Relay};
use super::suspended::Running;
use super::tickets::Ticket;
use super::{Rejected, Server, passthrough, tasks};
use bridge_render::Rendered;
use bridge_session::{Client, Run, RunOutcome};

/// How far a call has brought a run.
enum CallProgress {
    /// To its end, or as far as the call may wait.
    Answered(Box<RunOutcome>),
    /// A server has asked something that the client is asked in the answer.
    Asks(InputRequiredResult),
    /// It goes on as a task of the protocol.
    Task(Arc<Run>),
}

/// How waiting for a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// The run did.
    Ended,
    /// The time to wait is over.
    Enough,
    /// There is a question for the answer.
    Asked,
    /// The client no longer waits.
    GivenUp,
}

impl Server {
    /// Handles one request: begins a run, resumes one whose questions the client has answered, or
    /// waits for an earlier one.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Rejected> {
        // The next call begins once this ticket, the only one, is dropped.
        let ticket = context.extensions.remove::<Arc<Ticket>>();
        let arguments = Arguments::parse(request.arguments.unwrap_or_default(), &self.defaults)
            .map_err(Rejected::Invalid)?;
        let (named, text_bytes) = (arguments.session.is_some(), arguments.text_bytes);
        if let Some(ticket) = &ticket {
            ticket.wait_turn().await;
        }
        let progress = if let Some(id) = &arguments.run {
            drop(ticket);
            self.poll(id, &arguments, &context).await?
        } else {
            let running = match request.request_state {
                None => self.begin(arguments, &context)?,
                Some(state) => self.resume(&state, &arguments, request.input_responses)?,
            };
            drop(ticket);
            self.follow(running, &context).await?
        };
        Ok(match progress {
            CallProgress::Answered(outcome) => self
                .answer(&Rendered::of_run(&outcome, named, text_bytes))
                .into(),
            CallProgress::Asks(questions) => questions.into(),
            CallProgress::Task(run) => tasks::created(&run).into(),
        })
    }

    /// Begins a run.
    fn begin(
        &self,
        arguments: Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<Running, Rejected> {
        self.suspended.yield_session(arguments.session.as_deref());
        let steps = Steps::default();
        let (relay, inbox) = Relay::new(context, steps.clone());
        let can_ask = self.asks_in_answers || !relay::asks_in_answers(context);
        let client = if can_ask {
            Client(relay)
        } else {
            Client::default()
        };
        let request = arguments
            .clone()
            .into_request(client, self.closing.child_token());
        let run = self.runner.start(request, Arc::new(steps.clone()))?;
        Ok(Running {
            _cancel_on_drop: run.attend(),
            run,
            arguments,
            inbox,
            steps,
        })
    }

    /// Goes on with the run that waits for these answers.
    fn resume(
        &self,
        state: &str,
        arguments: &Arguments,
        responses: Option<InputResponses>,
    ) -> Result<Running, Rejected> {
        let running = self.suspended.take(state, arguments)?;
        running.inbox.answer(responses.unwrap_or_default());
        Ok(running)
    }

    /// Waits for the outcome, for a question that goes into the answer, or as long as the call may. Until a run is left
    /// running, it is the call's own: who cancels the call cancels it.
    async fn follow(
        &self,
        running: Running,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallProgress, Rejected> {
        let mut reports = Reports::new(context, &running.steps);
        let run = Arc::clone(&running.run);
        let yield_after = running.arguments.yield_after;
        // A model that asks to be answered early means itself; a client that can keep a task keeps it for the model.
        let becomes_task = yield_after.is_none() && tasks::are_offered_by(context);
        let limit = yield_after.or_else(|| becomes_task.then_some(tasks::BECOMES_TASK_AFTER));
        let (given_up, inbox) = (context.ct.cancelled(), Some(&*running.inbox));
        match wait(&run, limit, given_up, inbox, &mut reports).await {
            Waited::Ended => {}
            Waited::GivenUp => {
                run.cancel();
                wait(&run, None, pending(), None, &mut reports).await;
            }
            Waited::Asked => {
                let questions = running.inbox.show();
                return Ok(CallProgress::Asks(passthrough::input_required(
                    questions,
                    self.suspended.suspend(running),
                )));
            }
            Waited::Enough => {
                run.leave_running();
                running.inbox.close();
                if becomes_task {
                    return Ok(CallProgress::Task(run));
                }
            }
        }
        Ok(CallProgress::Answered(Box::new(run.read()?)))
    }

    /// Waits for a run of before, or cancels it. Who cancels this call only waits no longer.
    async fn poll(
        &self,
        id: &str,
        arguments: &Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallProgress, Rejected> {
        let run = self.runner.find(id, arguments.session.as_deref())?;
        if arguments.cancel {
            run.cancel();
        }
        let mut reports = Reports::new(context, &Steps::default());
        let limit = arguments.yield_after.unwrap_or(arguments.timeout);
        let given_up = context.ct.cancelled();
        let outcome = match wait(&run, Some(limit), given_up, None, &mut reports).await {
            // Nobody reads this answer: what it would have told is still to be read.
            Waited::GivenUp => run.peek()?,
            _ => run.read()?,
        };
        Ok(CallProgress::Answered(Box::new(outcome)))
    }
}

/// Waits until the run has ended, `limit` is over, something is asked, or the client has given up.
async fn wait(
    run: &Run,
    limit: Option<Duration>,
    given_up: impl Future<Output = ()>,
    inbox: Option<&Inbox>,
    reports: &mut Reports,
) -> Waited {
    let asked = async {
        match inbox {
            Some(inbox) => inbox.asked().await,
            None => pending().await,
        }
    };
    let (mut ended, mut given_up) = (pin!(run.ended_or_given_up()), pin!(given_up));
    let (mut enough, mut asked) = (pin!(sleep(limit.unwrap_or_default())), pin!(asked));
    loop {
        tokio::select! {
            biased;
            () = &mut ended => return Waited::Ended,
            () = &mut given_up => return Waited::GivenUp,
            () = &mut asked => return Waited::Asked,
            () = &mut enough, if limit.is_some() => return Waited::Enough,
            notification = reports.next() => reports.send(notification).await,
        }
    }
}
