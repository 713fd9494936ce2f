//! One execution's requests: each a task, a bounded number at once, all of them over when the run is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::{Calls, Summary};
use super::redacting::Redacting;
use super::request::Request;
use super::{GuestError, Kind, Scope, lock};
use bridge_common::json;
use bridge_store::Origin;
use bridge_upstream::{CallContext, Interact, Payload};

/// Bounds and company of a run.
#[derive(Clone)]
pub struct RunContext {
    /// When the run is over at the latest.
    pub deadline: Option<Instant>,
    /// Fires when the client gives up.
    pub cancel: CancellationToken,
    /// The client, for questions of servers.
    pub interact: Arc<dyn Interact>,
    /// Noted with what the run keeps.
    pub origin: Origin,
}

/// An answer that the guest has not read yet.
#[derive(Debug)]
struct Unread(Arc<AtomicUsize>);

impl Unread {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The answer to one request. As long as it is kept it counts as being worked on: a guest that does not read its answers
/// gets no more of them.
#[derive(Debug)]
pub struct Response {
    /// The number that the guest gave the request.
    pub call: u64,
    /// Its result.
    pub result: Result<Payload, GuestError>,
    _permit: Option<OwnedSemaphorePermit>,
    _unread: Unread,
}

impl Response {
    /// The `rpc_response` frame.
    pub fn frame(&self) -> impl Serialize {
        let error = self
            .result
            .as_ref()
            .err()
            .map(|refusal| refusal.clone().into_json());
        Frame {
            kind: "rpc_response",
            call: self.call,
            success: error.is_none(),
            payload: self.result.as_ref().ok(),
            error,
        }
    }
}

#[derive(Serialize)]
struct Frame<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    call: u64,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

/// The requests of one execution.
pub struct Run {
    inner: Arc<Inner>,
    tasks: TaskTracker,
}

pub(super) struct Inner {
    pub(super) scope: Arc<Scope>,
    pub(super) context: RunContext,
    pub(super) calls: Mutex<Calls>,
    responses: mpsc::UnboundedSender<Response>,
    unread: Arc<AtomicUsize>,
}

impl Scope {
    /// Begins a run; answers to its requests come through the receiver. There are at most [`super::Limits::pending`] of
    /// them, and those with results are counted against [`super::Limits::parallel`] until they are dropped.
    pub fn run(self: &Arc<Self>, context: RunContext) -> (Run, mpsc::UnboundedReceiver<Response>) {
        let (responses, receiver) = mpsc::unbounded_channel();
        let context = RunContext {
            cancel: context.cancel.child_token(),
            ..context
        };
        let inner = Inner {
            scope: Arc::clone(self),
            context,
            calls: Mutex::default(),
            responses,
            unread: Arc::default(),
        };
        (
            Run {
                inner: Arc::new(inner),
                tasks: TaskTracker::new(),
            },
            receiver,
        )
    }
}

impl Run {
    /// Takes a request of the guest. Its answer, whatever it is, comes through the receiver.
    pub fn request(&self, call: u64, method: &str, params: Value) {
        let limits = self.inner.scope.broker.limits;
        let bytes = json::size_of(&params);
        let cancel = self.inner.context.cancel.child_token();
        {
            let mut calls = lock(&self.inner.calls);
            // Answers to requests of a run that is over, or to a number that is taken, would mean something else to
            // the guest than to us.
            if calls.closed || calls.contains(call) {
                return;
            }
            // A guest that asks and does not read is not worth the memory of refusals.
            if self.inner.unread.load(Ordering::Relaxed) > 2 * limits.pending {
                return;
            }
            if calls.bytes() + bytes > limits.pending_bytes {
                let message = format!(
                    "the arguments of pending requests have more than {} MiB",
                    limits.pending_bytes >> 20
                );
                return self.inner.refuse(
                    call,
                    GuestError::new(Kind::Permission, message).because("pending_limit"),
                );
            }
            if calls.len() >= limits.pending {
                let message = format!(
                    "{} requests are pending already, the most that may be",
                    limits.pending
                );
                return self.inner.refuse(
                    call,
                    GuestError::new(Kind::Permission, message).because("pending_limit"),
                );
            }
            calls.add(call, bytes, cancel.clone());
        }
        let request = Request::read(method, params).and_then(|request| {
            if let Request::CallTool { server, tool, .. } = &request {
                self.inner.count(call, server, tool)?;
            }
            if let Request::State(request) = &request
                && request.writes()
            {
                self.inner.count_write()?;
            }
            Ok(request)
        });
        let request = match request {
            Ok(request) => request,
            Err(refusal) => {
                lock(&self.inner.calls).finish(call, true);
                return self.inner.refuse(call, refusal);
            }
        };
        let inner = Arc::clone(&self.inner);
        self.tasks
            .spawn(async move { inner.serve(call, request, cancel).await });
    }

    /// The guest does not want the answer any more.
    pub fn cancel(&self, call: u64) {
        lock(&self.inner.calls).cancel(call);
    }

    /// Ends the run: whatever is under way is cancelled, at its server too.
    pub fn end(&self) -> Summary {
        let summary = lock(&self.inner.calls).close();
        self.inner.context.cancel.cancel();
        self.tasks.close();
        summary
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end();
    }
}

impl Inner {
    async fn serve(&self, call: u64, request: Request, cancel: CancellationToken) {
        let turn = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            turn = Arc::clone(&self.scope.permits).acquire_owned() => turn.ok(),
        };
        let Some(permit) = turn else {
            lock(&self.calls).finish(call, true);
            let refusal = GuestError::new(Kind::Mcp, "the call was cancelled before it began")
                .because("cancelled");
            return self.refuse(call, refusal);
        };
        let given = lock(&self.scope.catalog)
            .clone()
            .filter(|_| !request.looks_around());
        let catalog = match given {
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
        lock(&self.calls).finish(call, failed);
        self.send(call, result, Some(permit));
    }

    fn refuse(&self, call: u64, refusal: GuestError) {
        self.send(call, Err(refusal), None);
    }

    fn send(
        &self,
        call: u64,
        result: Result<Payload, GuestError>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let unread = Unread::new(&self.unread);
        let _ = self.responses.send(Response {
            call,
            result,
            _permit: permit,
            _unread: unread,
        });
    }

    fn count_write(&self) -> Result<(), GuestError> {
        let most = self.scope.broker.limits.writes;
        let mut calls = lock(&self.calls);
        calls.writes += 1;
        if calls.writes > most {
            let message = format!(
                "this run has changed what is kept {most} times, the most that one run may"
            );
            return Err(GuestError::new(Kind::Permission, message).because("write_limit"));
        }
        Ok(())
    }

    /// Counts a tool call, and names it for the summary.
    fn count(&self, call: u64, server: &str, tool: &str) -> Result<(), GuestError> {
        let most = self.scope.broker.limits.calls;
        let mut calls = lock(&self.calls);
        calls.made += 1;
        if calls.made > most {
            let message =
                format!("this run has made {most} tool calls, the most that one run may make");
            return Err(GuestError::new(Kind::Permission, message).because("call_limit"));
        }
        let name = server
            .chars()
            .take(100)
            .chain(['.'])
            .chain(tool.chars().take(100));
        calls.set_tool(call, name.collect());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_have_the_shape_of_the_contract() {
        let response = Response {
            call: 7,
            result: Ok(Payload::of(&json!({"content": []}))),
            _permit: None,
            _unread: Unread::new(&Arc::default()),
        };
        assert_eq!(
            serde_json::to_string(&response.frame()).unwrap(),
            r#"{"type":"rpc_response","call":7,"success":true,"payload":{"content":[]}}"#
        );
        let refusal = GuestError::new(Kind::Name, "no")
            .of_server(&"s".into())
            .of_tool("t")
            .because("r");
        let response = Response {
            call: 7,
            result: Err(refusal),
            _permit: None,
            _unread: Unread::new(&Arc::default()),
        };
        assert_eq!(
            serde_json::to_string(&response.frame()).unwrap(),
            r#"{"type":"rpc_response","call":7,"success":false,"error":{"type":"NameError","message":"no","server":"s","tool":"t","details":{"reason":"r"}}}"#
        );
    }
}
