//! One JSON-RPC conversation with one server: ids matched to waiting calls, questions relayed, cancellations sent.
//!
//! Knows no transport and no lifecycle: messages go out through an [`Outbox`] and come in through
//! [`Connection::receive`]. When it closes, every waiting call fails at once with the reason.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::interact::{Event, Interact, Question, QuestionKind, Reply};
use super::message::{Answer, Incoming, Outgoing, RpcError, code, start_of};
use crate::catalog::ServerName;

/// Questions of one server at once.
const MOST_QUESTIONS: usize = 32;

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

/// Bounds and company of one request.
pub(super) struct RequestContext<'a> {
    pub(super) cancel: &'a CancellationToken,
    pub(super) deadline: Option<Instant>,
    /// Without a sign of life for this long the request has failed.
    pub(super) silence: Option<Duration>,
    /// Who can be asked meanwhile, and for which tool.
    pub(super) company: Option<Company>,
}

/// The client behind a call.
#[derive(Clone)]
pub(super) struct Company {
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
    pub(super) junk: Junk,
}

#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, Call>,
    closed: Option<String>,
}

struct Call {
    answer: oneshot::Sender<Result<Value, Failure>>,
    company: Option<Company>,
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

/// Counts what a server said that was no message, and keeps the last.
#[derive(Default)]
pub(super) struct Junk {
    count: AtomicU64,
    last: Mutex<String>,
}

impl Junk {
    /// Counts one, and logs the first and then ever fewer.
    pub(super) fn add(&self, server: &ServerName, what: &str) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        what.clone_into(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
        if count.is_power_of_two() {
            tracing::warn!(server.name = %server, count, "server wrote something that is no MCP message");
            tracing::trace!(server.name = %server, what, "no MCP message");
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The last one, cut short.
    pub(super) fn last(&self) -> String {
        start_of(&self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }
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
            junk: Junk::default(),
        })
    }

    /// From now on each request carries this `_meta`.
    pub(super) fn set_metadata(&self, metadata: Map<String, Value>) {
        let _ = self.metadata.set(metadata);
    }

    /// Asks the server and waits for the answer. Dropping the future, like every other way of giving up, tells the
    /// server that the answer is of no use any more.
    pub(super) async fn request(
        self: &Arc<Self>,
        method: &'static str,
        mut params: Map<String, Value>,
        context: RequestContext<'_>,
    ) -> Result<Value, Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.add_metadata(id, method, &mut params);
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
                company: context.company.clone(),
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
                answer.unwrap_or_else(|_| Err(Failure::Closed { reason: "connection closed".to_owned(), sent: true }))
            }
            failure = given_up => Err(failure),
        }
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

    /// Takes in one message of the server.
    pub(super) fn receive(self: &Arc<Self>, message: Incoming) {
        match message {
            Incoming::Answer { id, answer } => self.answered(id, answer),
            Incoming::Request {
                id,
                method,
                params,
                origin,
            } => self.asked(id, &method, params, origin),
            Incoming::Notification { method, params } => self.told(&method, params),
            Incoming::Junk(what) => self.junk.add(&self.server, &what),
        }
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

    fn answered(&self, id: Option<u64>, answer: Answer) {
        let call = {
            let mut waiting = self.waiting();
            // An error without an id is the only thing a server can say to a request that it could not read; with one
            // request waiting it is clear which.
            let id = match (id, &answer) {
                (None, Answer::Error(_) | Answer::TooLarge { .. } | Answer::Malformed(_))
                    if waiting.calls.len() == 1 =>
                {
                    waiting.calls.keys().next().copied()
                }
                (id, _) => id,
            };
            id.and_then(|id| waiting.calls.remove(&id))
        };
        let Some(call) = call else {
            // Late answers to cancelled calls come here as a matter of course.
            tracing::debug!(server.name = %self.server, id, "answer to nothing that waits");
            if id.is_none_or(|id| id >= self.next.load(Ordering::Relaxed)) {
                self.junk.add(
                    &self.server,
                    &format!("answer with an unknown id: {answer:?}"),
                );
            }
            return;
        };
        call.over.cancel();
        let _ = call.answer.send(match answer {
            Answer::Result(result) => Ok(result),
            Answer::Error(error) => Err(Failure::Rpc(error)),
            Answer::TooLarge { bytes } => Err(Failure::TooLarge { bytes }),
            Answer::Malformed(what) => Err(Failure::Malformed(what)),
        });
    }

    fn told(&self, method: &str, mut params: Value) {
        match method {
            "notifications/progress" => {
                let token = params
                    .as_object_mut()
                    .and_then(|params| params.shift_remove("progressToken"));
                let Some(id) = token.as_ref().and_then(token_id) else {
                    return;
                };
                let company = {
                    let waiting = self.waiting();
                    let Some(call) = waiting.calls.get(&id) else {
                        return;
                    };
                    call.sign_of_life.changed.notify_one();
                    call.company.clone()
                };
                if let Some(Company { interact, tool }) = company {
                    interact.tell(Event::Progress {
                        server: self.server.clone(),
                        tool,
                        params,
                    });
                }
            }
            "notifications/message" => {
                if let Some((_, company, ..)) = self.company(None) {
                    company.interact.tell(Event::Log {
                        server: self.server.clone(),
                        params,
                    });
                }
            }
            _ => (self.on_change)(method),
        }
    }

    fn asked(self: &Arc<Self>, id: Value, method: &str, params: Value, origin: Option<u64>) {
        if method == "ping" {
            return self.reply(id, Ok(json!({})));
        }
        let Some(kind) = QuestionKind::of_method(method) else {
            let error = RpcError::new(
                code::METHOD_NOT_FOUND,
                format!("{} is not offered", start_of(method)),
            );
            return self.reply(id, Err(error));
        };
        let Some((_, company, sign_of_life, over)) = self.company(origin) else {
            let reply =
                Reply::Unsupported("no call is in progress that this could belong to".to_owned());
            return self.reply(id, answer_to(kind, reply));
        };
        if self.questions.len() >= MOST_QUESTIONS {
            let reply = Reply::Unsupported(format!("{MOST_QUESTIONS} questions are open already"));
            return self.reply(id, answer_to(kind, reply));
        }
        let connection = Arc::clone(self);
        self.questions.spawn(async move {
            let reply = connection.ask(kind, params, company, &sign_of_life, over).await;
            let answer = Outgoing::Answer { id, answer: answer_to(kind, reply) };
            if tokio::time::timeout(Duration::from_secs(5), connection.outbox.send(answer)).await.is_err() {
                tracing::warn!(server.name = %connection.server, "server does not read the answer to its question");
            }
        });
    }

    /// Asks the client behind `company`; the clock of its call stands still meanwhile.
    async fn ask(
        &self,
        kind: QuestionKind,
        params: Value,
        company: Company,
        sign_of_life: &SignOfLife,
        over: CancellationToken,
    ) -> Reply {
        sign_of_life.open_questions.fetch_add(1, Ordering::SeqCst);
        sign_of_life.changed.notify_one();
        let question = Question {
            server: self.server.clone(),
            tool: Some(company.tool),
            kind,
            params,
            cancel: over.child_token(),
        };
        let reply = tokio::select! {
            reply = company.interact.ask(question) => reply,
            () = over.cancelled() => Reply::Cancel,
            () = self.closed.cancelled() => Reply::Cancel,
        };
        sign_of_life.open_questions.fetch_sub(1, Ordering::SeqCst);
        sign_of_life.changed.notify_one();
        reply
    }

    /// The client behind the request `origin`, or, where the transport cannot tell, behind the newest call.
    fn company(
        &self,
        origin: Option<u64>,
    ) -> Option<(u64, Company, Arc<SignOfLife>, CancellationToken)> {
        let waiting = self.waiting();
        let calls = waiting
            .calls
            .iter()
            .filter(|(id, _)| origin.is_none_or(|origin| origin == **id));
        let calls = calls.filter_map(|(id, call)| {
            let company = call.company.clone()?;
            Some((
                *id,
                company,
                Arc::clone(&call.sign_of_life),
                call.over.clone(),
            ))
        });
        calls.max_by_key(|(id, ..)| *id)
    }

    fn reply(self: &Arc<Self>, id: Value, answer: Result<Value, RpcError>) {
        // Without waiting: a server that asks and does not read answers is not worth memory.
        if !self.outbox.try_send(Outgoing::Answer { id, answer }) {
            tracing::warn!(server.name = %self.server, "server does not read the answers to its requests");
        }
    }
}

/// A waiting request; removes itself, and tells the server where it has seen the request but not answered.
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
        // `initialize` must not be cancelled, and the other question is only of use together with it.
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
    /// Waits until the caller gives up, or time is up.
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

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn token_id(token: &Value) -> Option<u64> {
    token.as_u64().or_else(|| token.as_str()?.parse().ok())
}

/// The four outcomes as MCP has them: three kinds of result for an elicitation, and an error where nobody can be asked.
pub(super) fn answer_to(kind: QuestionKind, reply: Reply) -> Result<Value, RpcError> {
    match (kind, reply) {
        (QuestionKind::Elicitation, Reply::Accept(Value::Null)) => Ok(json!({"action": "accept"})),
        (QuestionKind::Elicitation, Reply::Accept(content)) => {
            Ok(json!({"action": "accept", "content": content}))
        }
        (QuestionKind::Elicitation, Reply::Decline) => Ok(json!({"action": "decline"})),
        (QuestionKind::Elicitation, Reply::Cancel) => Ok(json!({"action": "cancel"})),
        (QuestionKind::Sampling, Reply::Accept(result)) => Ok(result),
        (QuestionKind::Sampling, Reply::Decline) => Err(RpcError::new(
            code::USER_REJECTED,
            "the user declined the sampling request",
        )),
        (QuestionKind::Sampling, Reply::Cancel) => Err(RpcError::new(
            code::USER_REJECTED,
            "the sampling request was cancelled",
        )),
        (kind, Reply::Unsupported(why)) => Err(RpcError::new(
            code::METHOD_NOT_FOUND,
            format!(
                "{} is not supported by the client: {why}; nobody was asked",
                kind.method()
            ),
        )),
    }
}
