//! One JSON-RPC conversation with one server: ids matched to waiting calls, questions relayed,
//! cancellations sent.
//!
//! Knows neither transport nor lifecycle: messages go out through an [`Outbox`] and come in through
//! [`Connection::receive`]. When it closes, every waiting call fails at once with the reason.

mod incoming;
mod non_protocol;
mod request;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};

use async_trait::async_trait;
use bridge_common::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) use self::incoming::answer_to;
use self::non_protocol::NonProtocolOutput;
pub(super) use self::request::RequestContext;
use super::failure::Failure;
use super::interact::Interact;
use super::message::Outgoing;
use super::payload::Payload;
use super::tail::Tail;
use super::tool_list::ToolList;
use bridge_catalog::ServerName;

/// Sends messages to a server.
#[async_trait]
pub(super) trait Outbox: Send + Sync + 'static {
    /// Hands `message` to the transport. After an error the server cannot have seen a request.
    async fn send(&self, message: Outgoing) -> Result<(), Failure>;

    /// Hands `message` over without waiting, where there is room.
    fn try_send(&self, message: Outgoing) -> bool;

    /// The two sides have agreed on this revision.
    fn protocol_agreed(&self, _protocol: &str) {}

    /// The server has listed these tools; takes out those that this transport may not call.
    fn tools_listed(&self, _list: &mut ToolList) {}
}

/// The client behind a call, and the tool that it called.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) interact: Arc<dyn Interact>,
    pub(super) tool: String,
}

/// Takes the method of a notification that concerns more than one call.
pub(super) type OnChange = Arc<dyn Fn(&str) + Send + Sync>;

/// A conversation with a server.
pub(super) struct Connection {
    server: ServerName,
    outbox: Box<dyn Outbox>,
    waiting: Mutex<Waiting>,
    next: AtomicU64,
    /// `_meta` of every request, once the server is known to speak a revision without `initialize`.
    metadata: OnceLock<Map<String, Value>>,
    on_change: OnChange,
    questions: TaskTracker,
    closed: CancellationToken,
    /// Text that was not a message, and answers to no request.
    pub(super) non_protocol: NonProtocolOutput,
    /// The end of what the server wrote to stderr and of what it logged.
    pub(super) tail: Tail,
}

#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, Call>,
    /// Why the connection is closed, once it is.
    closed: Option<String>,
}

struct Call {
    answer: oneshot::Sender<Result<Payload, Failure>>,
    caller: Option<Caller>,
    sign_of_life: Arc<SignOfLife>,
    /// Fires when the call has ended: questions that are open then have lost their use.
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

    /// Tells the transport which revision was agreed on.
    pub(super) fn protocol_agreed(&self, protocol: &str) {
        self.outbox.protocol_agreed(protocol);
    }

    /// Takes out tools that the transport may not call.
    pub(super) fn tools_listed(&self, list: &mut ToolList) {
        self.outbox.tools_listed(list);
    }

    /// From now on each request carries this `_meta`.
    pub(super) fn set_metadata(&self, metadata: Map<String, Value>) {
        let _ = self.metadata.set(metadata);
    }

    /// Sends the server a notification.
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
            call.over.cancel();
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

    /// Takes no more requests; those that wait are still answered, or failed one by one.
    pub(super) fn abandon(&self, reason: &str) {
        self.waiting()
            .closed
            .get_or_insert_with(|| reason.to_owned());
        self.closed.cancel();
    }

    /// An id for a request that nothing else has.
    pub(super) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
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
        self.waiting.lock()
    }
}
