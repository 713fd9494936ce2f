//! One JSON-RPC conversation with one server: ids matched to waiting calls, questions relayed, cancellations sent.
//!
//! Knows no transport and no lifecycle: messages go out through an [`Outbox`] and come in through
//! [`Connection::receive`]. When it closes, every waiting call fails at once with the reason.

mod incoming;
mod non_protocol;
mod request;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) use self::incoming::answer_to;
use self::non_protocol::NonProtocolOutput;
pub(super) use self::request::RequestContext;
use super::interact::Interact;
use super::message::{Outgoing, RpcError};
use super::payload::Payload;
use super::tail::Tail;
use bridge_catalog::ServerName;

/// Sends messages to a server.
#[async_trait]
pub(super) trait Outbox: Send + Sync + 'static {
    /// Hands `message` to the transport; an error means that the server cannot have seen it.
    async fn send(&self, message: Outgoing) -> Result<(), Failure>;
    /// Hands `message` over without waiting, where there is room.
    fn try_send(&self, message: Outgoing) -> bool;
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// The connection is closed; whether the server may have seen the request.
    Closed { reason: String, sent: bool },
    /// The caller gave up.
    Cancelled,
    /// No answer, and no sign of life, in this time.
    TimedOut(Duration),
    /// The server answered with an error.
    Rpc(RpcError),
    /// The answer was larger than allowed.
    TooLarge { bytes: u64 },
    /// The answer was no JSON.
    Malformed(String),
    /// The request failed by itself; whether the server may have seen it.
    Transport { what: String, seen: bool },
    /// The server refuses the credentials, or wants some; what to say about it.
    Unauthorized(String),
}

/// The client behind a call.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) interact: Arc<dyn Interact>,
    pub(super) tool: String,
}

/// Told of what concerns more than one call.
pub(super) type OnChange = Box<dyn Fn(&str) + Send + Sync>;

/// The conversation.
pub(super) struct Connection {
    server: ServerName,
    outbox: Box<dyn Outbox>,
    waiting: Mutex<Waiting>,
    next: AtomicU64,
    /// Per-request metadata, once it is known that the server speaks a revision without `initialize`.
    metadata: OnceLock<Map<String, Value>>,
    on_change: OnChange,
    questions: TaskTracker,
    closed: CancellationToken,
    /// Lines or messages that were none, or answered nothing.
    pub(super) non_protocol: NonProtocolOutput,
    /// The end of what it wrote to stderr and of what it logged.
    pub(super) tail: Tail,
}

#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, Call>,
    closed: Option<String>,
}

struct Call {
    answer: oneshot::Sender<Result<Payload, Failure>>,
    caller: Option<Caller>,
    sign_of_life: Arc<SignOfLife>,
    /// Ends with the call: questions asked meanwhile are of no use then.
    over: CancellationToken,
}

/// Progress, and questions that stop the clock while they are open.
#[derive(Default)]
struct SignOfLife {
    changed: Notify,
    open_questions: AtomicU64,
}

impl Connection {
    pub(super) fn new(
        server: ServerName,
        outbox: Box<dyn Outbox>,
        on_change: OnChange,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            outbox,
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            metadata: OnceLock::new(),
            on_change,
            questions: TaskTracker::new(),
            closed: CancellationToken::new(),
            non_protocol: NonProtocolOutput::default(),
            tail: Tail::default(),
        })
    }

    /// From now on each request carries this `_meta`.
    pub(super) fn set_metadata(&self, metadata: Map<String, Value>) {
        let _ = self.metadata.set(metadata);
    }

    /// Tells the server something.
    pub(super) async fn notify(
        &self,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<(), Failure> {
        self.outbox
            .send(Outgoing::Notification { method, params })
            .await
    }

    /// Fails one waiting request, for transports that learn its fate apart from the conversation.
    pub(super) fn fail(&self, id: u64, failure: Failure) {
        let call = self.waiting().calls.remove(&id);
        if let Some(call) = call {
            let _ = call.answer.send(Err(failure));
        }
    }

    /// Ends the conversation: what waits fails with `reason`.
    pub(super) fn close(&self, reason: &str) {
        let calls = {
            let mut waiting = self.waiting();
            waiting.closed.get_or_insert_with(|| reason.to_owned());
            std::mem::take(&mut waiting.calls)
        };
        for call in calls.into_values() {
            let _ = call.answer.send(Err(Failure::Closed {
                reason: reason.to_owned(),
                sent: true,
            }));
            call.over.cancel();
        }
        self.closed.cancel();
    }

    /// Why it is closed, if it is.
    pub(super) fn closed(&self) -> Option<String> {
        self.waiting().closed.clone()
    }

    /// Waits until it is closed.
    pub(super) async fn ended(&self) {
        self.closed.cancelled().await;
    }

    pub(super) fn server(&self) -> &ServerName {
        &self.server
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
