//! One request of ours: sent, waited for, given up in time, and cancelled at the server unless it
//! answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Call, Caller, Connection, SignOfLife};
use crate::deadline::until;
use crate::failure::Failure;
use crate::message::{Outgoing, Params};
use crate::payload::Payload;

/// Bounds of one request, and the client behind it.
pub(crate) struct RequestContext<'a> {
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) deadline: Option<Instant>,
    /// Time without a sign of life after which the request has failed.
    pub(crate) silence: Option<Duration>,
    /// The client that can be asked meanwhile, and the tool.
    pub(crate) caller: Option<Caller>,
}

impl<'a> RequestContext<'a> {
    /// Bounded by the caller only, and without a client to ask.
    pub(crate) fn of(cancel: &'a CancellationToken) -> Self {
        Self {
            cancel,
            deadline: None,
            silence: None,
            caller: None,
        }
    }
}

impl Connection {
    /// Sends a request and waits for the answer. Dropping the future cancels the request at the
    /// server, as does every other way of giving up.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &'static str,
        params: impl Into<Params>,
        context: RequestContext<'_>,
    ) -> Result<Payload, Failure> {
        let id = self.next_id();
        let mut params = params.into();
        self.add_metadata(id, method, &mut params.fields);
        let (sender, mut answer) = oneshot::channel();
        let sign_of_life = Arc::new(SignOfLife::default());
        let over = CancellationToken::new();
        {
            let mut waiting = self.waiting();
            if let Some(reason) = &waiting.closed {
                return Err(Failure::Closed {
                    reason: reason.clone(),
                    sent: false,
                });
            }
            let call = Call {
                answer: sender,
                caller: context.caller.clone(),
                sign_of_life: Arc::clone(&sign_of_life),
                over: over.clone(),
            };
            waiting.calls.insert(id, call);
        }
        let mut entry = Entry {
            connection: self,
            id,
            method,
            sent: false,
        };
        let limit = Limit {
            context: &context,
            sign_of_life: &sign_of_life,
        };
        let mut given_up = std::pin::pin!(limit.reached());
        tokio::select! {
            biased;
            sent = self.outbox.send(Outgoing::Request { id, method, params }) => sent?,
            failure = &mut given_up => return Err(failure),
        }
        entry.sent = true;
        tokio::select! {
            biased;
            answer = &mut answer => {
                entry.sent = false;
                match answer {
                    // The entries of a list are checked one by one.
                    Ok(Ok(result)) if result.is_too_deep() && !method.ends_with("/list") => {
                        Err(Failure::Malformed("it is nested too deeply".to_owned()))
                    }
                    Ok(answer) => answer,
                    Err(_) => Err(Failure::Closed { reason: "connection closed".to_owned(), sent: true }),
                }
            }
            failure = given_up => Err(failure),
        }
    }

    fn add_metadata(&self, id: u64, method: &str, params: &mut Map<String, Value>) {
        let reports = method == "tools/call";
        if !reports && self.metadata.get().is_none() {
            return;
        }
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        if !meta.is_object() {
            *meta = json!({});
        }
        if let (Value::Object(meta), Some(metadata)) = (&mut *meta, self.metadata.get()) {
            meta.extend(
                metadata
                    .iter()
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        if reports {
            meta["progressToken"] = id.into();
        }
    }
}

/// A waiting request. Dropping it removes it, and cancels it at a server that has seen the request
/// but not answered.
struct Entry<'a> {
    connection: &'a Arc<Connection>,
    id: u64,
    method: &'static str,
    sent: bool,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let call = self.connection.waiting().calls.remove(&self.id);
        if let Some(call) = call {
            call.over.cancel();
        }
        // `initialize` must not be cancelled, and `server/discover` belongs to it.
        if !self.sent
            || matches!(self.method, "initialize" | "server/discover")
            || self.connection.closed.is_cancelled()
        {
            return;
        }
        let mut params = Map::new();
        params.insert("requestId".to_owned(), self.id.into());
        params.insert("reason".to_owned(), "the caller gave up".into());
        let message = Outgoing::Notification {
            method: "notifications/cancelled",
            params,
        };
        if !self.connection.outbox.try_send(message.clone()) {
            let connection = Arc::clone(self.connection);
            self.connection.questions.spawn(async move {
                let _ =
                    tokio::time::timeout(Duration::from_secs(5), connection.outbox.send(message))
                        .await;
            });
        }
    }
}

struct Limit<'a> {
    context: &'a RequestContext<'a>,
    sign_of_life: &'a SignOfLife,
}

impl Limit<'_> {
    /// Waits until the caller gives up or the time is up.
    async fn reached(self) -> Failure {
        let started = Instant::now();
        let mut quiet_since = started;
        loop {
            let asking = self.sign_of_life.open_questions.load(Ordering::SeqCst) > 0;
            let silence = self
                .context
                .silence
                .filter(|_| !asking)
                .map(|silence| quiet_since + silence);
            tokio::select! {
                biased;
                () = self.context.cancel.cancelled() => return Failure::Cancelled,
                () = until(self.context.deadline) => return Failure::TimedOut(started.elapsed()),
                () = self.sign_of_life.changed.notified() => quiet_since = Instant::now(),
                () = until(silence) => return Failure::TimedOut(started.elapsed()),
            }
        }
    }
}
