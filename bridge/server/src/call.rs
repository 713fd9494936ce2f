//! One call, from its arguments to its answer: begins a run or finds an earlier one, waits for as
//! long as the call may, and leaves the run running if it is to go on.

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

/// What a call is answered with.
enum CallProgress {
    /// The outcome of the run, or how far it has got.
    Answered(Box<RunOutcome>),
    /// Questions of a server, which the client answers by calling again.
    InputRequired(InputRequiredResult),
    /// The run goes on as a task of the protocol.
    Task(Arc<Run>),
}

/// Why waiting for a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// The run has ended.
    Ended,
    /// The call may not wait any longer.
    TimedOut,
    /// A server asks something that the answer must ask the client.
    Asked,
    /// The client has cancelled the call.
    Cancelled,
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
            CallProgress::InputRequired(questions) => questions.into(),
            CallProgress::Task(run) => tasks::created(&run).into(),
        })
    }

    /// Begins a run that is cancelled when the result is dropped.
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

    /// Resumes the run that waits for these answers.
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

    /// Waits for the outcome, for a question that goes into the answer, or for as long as the call
    /// may. Until the run is left running, cancelling the call cancels the run.
    async fn follow(
        &self,
        running: Running,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallProgress, Rejected> {
        let mut reports = Reports::new(context, &running.steps);
        let run = Arc::clone(&running.run);
        let yield_after = running.arguments.yield_after;
        // With `yield_after` the model itself polls; otherwise a client that supports tasks polls
        // for the model.
        let becomes_task = yield_after.is_none() && tasks::are_supported_by(context);
        let limit = yield_after.or_else(|| becomes_task.then_some(tasks::BECOMES_TASK_AFTER));
        let (cancelled, inbox) = (context.ct.cancelled(), Some(&*running.inbox));
        match wait(&run, limit, cancelled, inbox, &mut reports).await {
            Waited::Ended => {}
            Waited::Cancelled => {
                run.cancel();
                wait(&run, None, pending(), None, &mut reports).await;
            }
            Waited::Asked => {
                let questions = running.inbox.show();
                return Ok(CallProgress::InputRequired(passthrough::input_required(
                    questions,
                    self.suspended.suspend(running),
                )));
            }
            Waited::TimedOut => {
                run.leave_running();
                running.inbox.close();
                if becomes_task {
                    return Ok(CallProgress::Task(run));
                }
            }
        }
        Ok(CallProgress::Answered(Box::new(run.read()?)))
    }

    /// Waits for an earlier run, or cancels it. Cancelling this call ends only the waiting.
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
        let cancelled = context.ct.cancelled();
        let outcome = match wait(&run, Some(limit), cancelled, None, &mut reports).await {
            // The client does not see this answer, so its output stays unread.
            Waited::Cancelled => run.peek()?,
            _ => run.read()?,
        };
        Ok(CallProgress::Answered(Box::new(outcome)))
    }
}

/// Waits until the run has ended, `limit` has passed, a server asks something, or the client has
/// cancelled the call.
async fn wait(
    run: &Run,
    limit: Option<Duration>,
    cancelled: impl Future<Output = ()>,
    inbox: Option<&Inbox>,
    reports: &mut Reports,
) -> Waited {
    let asked = async {
        match inbox {
            Some(inbox) => inbox.asked().await,
            None => pending().await,
        }
    };
    let (mut ended, mut cancelled) = (pin!(run.ended_or_given_up()), pin!(cancelled));
    let (mut timeout, mut asked) = (pin!(sleep(limit.unwrap_or_default())), pin!(asked));
    loop {
        tokio::select! {
            biased;
            () = &mut ended => return Waited::Ended,
            () = &mut cancelled => return Waited::Cancelled,
            () = &mut asked => return Waited::Asked,
            () = &mut timeout, if limit.is_some() => return Waited::TimedOut,
            notification = reports.next() => reports.send(notification).await,
        }
    }
}
