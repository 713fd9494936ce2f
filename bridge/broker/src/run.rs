//! One execution's requests: each a task, a bounded number at once, all of them over when the run
//! is.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::Summary;
use super::context::{ActiveRun, Outcome, RunContext};
use super::redacting::Redacting;
use super::request::Request;
use super::{GuestError, Kind, Scope};
use bridge_common::json;
use bridge_upstream::{CallContext, Payload};

/// The requests of one execution.
pub struct Run {
    active: Arc<ActiveRun>,
    tasks: TaskTracker,
}

impl Scope {
    /// Begins a run; outcomes of its requests come through the receiver. There are at most
    /// [`super::Limits::pending`] of them, and those with results are counted against
    /// [`super::Limits::parallel`] until they are dropped.
    pub fn run(self: &Arc<Self>, context: RunContext) -> (Run, mpsc::UnboundedReceiver<Outcome>) {
        let (outcomes, receiver) = mpsc::unbounded_channel();
        let context = RunContext {
            cancel: context.cancel.child_token(),
            ..context
        };
        let run = Run {
            active: Arc::new(ActiveRun::new(Arc::clone(self), context, outcomes)),
            tasks: TaskTracker::new(),
        };
        (run, receiver)
    }
}

/// How a request was received.
enum Admission {
    /// The request is worked on, until the token fires.
    Admitted(CancellationToken),
    /// The request is refused.
    Refused(GuestError),
    /// The request gets no answer at all.
    Ignored,
}

impl Run {
    /// Takes a request of the guest. Its outcome, whatever it is, comes through the receiver.
    pub fn request(&self, call: u64, method: &str, params: Value) {
        let cancel = match self.admit(call, json::size_of(&params)) {
            Admission::Admitted(cancel) => cancel,
            Admission::Refused(error) => return self.active.refuse(call, error),
            Admission::Ignored => return,
        };
        match self.read(call, method, params) {
            Ok(request) => {
                let active = Arc::clone(&self.active);
                self.tasks
                    .spawn(async move { active.serve(call, request, cancel).await });
            }
            Err(error) => {
                self.active.calls.lock().finish(call, true);
                self.active.refuse(call, error);
            }
        }
    }

    /// Registers a request whose arguments have `bytes`, where the limits allow it.
    fn admit(&self, call: u64, bytes: usize) -> Admission {
        let limits = self.active.scope.broker.limits;
        let mut calls = self.active.calls.lock();
        // Answers to requests of a run that is over, or to a number that is taken, would mean
        // something else to the guest than to us.
        if calls.closed || calls.contains(call) {
            return Admission::Ignored;
        }
        // A guest that asks and does not read is not worth the memory of refusals.
        if self.active.unread() > 2 * limits.pending {
            return Admission::Ignored;
        }
        let message = if calls.bytes() + bytes > limits.pending_bytes {
            format!(
                "the arguments of pending requests have more than {} MiB",
                limits.pending_bytes >> 20
            )
        } else if calls.len() >= limits.pending {
            format!(
                "{} requests are pending already, the most that may be",
                limits.pending
            )
        } else {
            let cancel = self.active.context.cancel.child_token();
            calls.add(call, bytes, cancel.clone());
            return Admission::Admitted(cancel);
        };
        Admission::Refused(GuestError::new(Kind::Permission, message).because("pending_limit"))
    }

    /// Reads a request and counts it against what one run may do.
    fn read(&self, call: u64, method: &str, params: Value) -> Result<Request, GuestError> {
        let request = Request::read(method, params)?;
        match &request {
            Request::CallTool { server, tool, .. } => self.active.count(call, server, tool)?,
            Request::State(request) if request.writes() => self.active.count_write()?,
            _ => {}
        }
        Ok(request)
    }

    /// The guest does not want the answer any more.
    pub fn cancel(&self, call: u64) {
        self.active.calls.lock().cancel(call);
    }

    /// Ends the run: whatever is under way is cancelled, at its server too.
    pub fn end(&self) -> Summary {
        let summary = self.active.calls.lock().close();
        self.active.context.cancel.cancel();
        self.tasks.close();
        summary
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end();
    }
}

impl ActiveRun {
    async fn serve(&self, call: u64, request: Request, cancel: CancellationToken) {
        let turn = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            turn = Arc::clone(&self.scope.permits).acquire_owned() => turn.ok(),
        };
        let Some(permit) = turn else {
            self.calls.lock().finish(call, true);
            let refusal = GuestError::new(Kind::Mcp, "the call was cancelled before it began")
                .because("cancelled");
            return self.refuse(call, refusal);
        };
        let loaded_with = self
            .scope
            .catalog
            .lock()
            .clone()
            .filter(|_| !request.looks_around());
        let catalog = match loaded_with {
            Some(catalog) => catalog,
            None => self.scope.broker.catalog().await,
        };
        let redactor = self.scope.broker.redactor(&catalog).await;
        let context = CallContext {
            deadline: self.context.deadline,
            cancel,
            interact: Arc::new(Redacting {
                client: Arc::clone(&self.context.interact),
                redactor: redactor.clone(),
            }),
        };
        let result = self.answer(call, request, &catalog, &context).await;
        let result = result
            .map(|payload| payload.redacted(&redactor))
            .map_err(|mut refusal| {
                refusal.message = redactor.text(&refusal.message).into_owned();
                redactor.value(&mut refusal.details);
                refusal
            });
        let failed = result.as_ref().map_or(true, Payload::is_tool_error);
        self.calls.lock().finish(call, failed);
        self.send(call, result, Some(permit));
    }
}
