//! What a server sends: answers go to those who wait for them, progress and log lines to the
//! client, questions to the client behind the call.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Caller, Connection, SignOfLife};
use crate::failure::Failure;
use crate::interact::{Event, Question, QuestionKind, Reply};
use crate::message::{Incoming, Outcome, Outgoing, RpcError, code, start_of};

/// Characters kept of a log message.
const LOG_CHARACTERS: usize = 1_000;
/// The most questions of one server that are open at once.
const MOST_QUESTIONS: usize = 32;

impl Connection {
    /// Takes a message of the server.
    pub(crate) fn receive(self: &Arc<Self>, message: Incoming) {
        match message {
            Incoming::Response { id, outcome } => self.response(id, outcome),
            Incoming::Request {
                id,
                method,
                params,
                origin,
            } => self.server_request(id, &method, params, origin),
            Incoming::Notification { method, params } => self.notification(&method, params),
            Incoming::NonProtocol(what) => self.non_protocol.add(&self.server, &what),
        }
    }

    fn response(&self, id: Option<u64>, outcome: Outcome) {
        let call = {
            let mut waiting = self.waiting();
            // A server that could not read a request can only answer with an error without an id;
            // while one request waits, it is clear which is meant.
            let id = match (id, &outcome) {
                (None, Outcome::Error(_) | Outcome::TooLarge { .. } | Outcome::Malformed(_))
                    if waiting.calls.len() == 1 =>
                {
                    waiting.calls.keys().next().copied()
                }
                (id, _) => id,
            };
            id.and_then(|id| waiting.calls.remove(&id))
        };
        let Some(call) = call else {
            // Late answers to cancelled calls are usual.
            tracing::debug!(server.name = %self.server, id, "answer to a request that does not wait");
            if id.is_none_or(|id| id >= self.next.load(Ordering::Relaxed)) {
                let id = id.map_or_else(|| "none of ours".to_owned(), |id| id.to_string());
                self.non_protocol
                    .add(&self.server, &format!("an answer to request {id}"));
            }
            return;
        };
        call.over.cancel();
        let _ = call.answer.send(match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(Failure::Rpc(error)),
            Outcome::TooLarge { bytes } => Err(Failure::TooLarge { bytes }),
            Outcome::Malformed(what) => Err(Failure::Malformed(what)),
        });
    }

    fn notification(&self, method: &str, mut params: Value) {
        match method {
            "notifications/progress" => {
                let token = params
                    .as_object_mut()
                    .and_then(|params| params.shift_remove("progressToken"));
                let Some(id) = token.as_ref().and_then(token_id) else {
                    return;
                };
                let caller = {
                    let waiting = self.waiting();
                    let Some(call) = waiting.calls.get(&id) else {
                        return;
                    };
                    call.sign_of_life.changed.notify_one();
                    call.caller.clone()
                };
                if let Some(Caller { interact, tool }) = caller {
                    interact.notify(Event::Progress {
                        server: self.server.clone(),
                        tool,
                        params,
                    });
                }
            }
            "notifications/elicitation/complete" => {
                let id = params.get("elicitationId").and_then(Value::as_str);
                if let (Some(id), Some((_, caller, ..))) = (id, self.caller(None)) {
                    caller.interact.notify(Event::ElicitationDone {
                        server: self.server.clone(),
                        id: id.to_owned(),
                    });
                }
            }
            "notifications/message" => {
                if let Some(line) = log_line(&params) {
                    self.tail.note(&line);
                }
                if let Some((_, caller, ..)) = self.caller(None) {
                    caller.interact.notify(Event::Log {
                        server: self.server.clone(),
                        params,
                    });
                }
            }
            _ => (self.on_change)(method),
        }
    }

    fn server_request(
        self: &Arc<Self>,
        id: Value,
        method: &str,
        params: Value,
        origin: Option<u64>,
    ) {
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
        let Some((_, caller, sign_of_life, over)) = self.caller(origin) else {
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
            let reply = connection.ask_client(kind, params, caller, &sign_of_life, over).await;
            let answer = Outgoing::Response { id, outcome: answer_to(kind, reply) };
            if tokio::time::timeout(Duration::from_secs(5), connection.outbox.send(answer)).await.is_err() {
                tracing::warn!(server.name = %connection.server, "server does not read the answer to its question");
            }
        });
    }

    /// Asks the client behind a call, whose clock stands still meanwhile.
    async fn ask_client(
        &self,
        kind: QuestionKind,
        params: Value,
        caller: Caller,
        sign_of_life: &SignOfLife,
        over: CancellationToken,
    ) -> Reply {
        sign_of_life.open_questions.fetch_add(1, Ordering::SeqCst);
        sign_of_life.changed.notify_one();
        let question = Question {
            server: self.server.clone(),
            tool: Some(caller.tool),
            kind,
            params,
            cancel: over.child_token(),
        };
        let reply = tokio::select! {
            reply = caller.interact.request(question) => reply,
            () = over.cancelled() => Reply::Cancel,
            () = self.closed.cancelled() => Reply::Cancel,
        };
        sign_of_life.open_questions.fetch_sub(1, Ordering::SeqCst);
        sign_of_life.changed.notify_one();
        reply
    }

    /// The client behind the request `origin`, or behind the newest call where the transport cannot
    /// tell.
    fn caller(
        &self,
        origin: Option<u64>,
    ) -> Option<(u64, Caller, Arc<SignOfLife>, CancellationToken)> {
        let waiting = self.waiting();
        let calls = waiting
            .calls
            .iter()
            .filter(|(id, _)| origin.is_none_or(|origin| origin == **id));
        let calls = calls.filter_map(|(id, call)| {
            let caller = call.caller.clone()?;
            Some((
                *id,
                caller,
                Arc::clone(&call.sign_of_life),
                call.over.clone(),
            ))
        });
        calls.max_by_key(|(id, ..)| *id)
    }

    fn reply(self: &Arc<Self>, id: Value, answer: Result<Value, RpcError>) {
        // Without waiting: answers that a server does not read must not pile up.
        if !self.outbox.try_send(Outgoing::Response {
            id,
            outcome: answer,
        }) {
            tracing::warn!(server.name = %self.server, "server does not read the answers to its requests");
        }
    }
}

/// A log message as a line like those on stderr; `None` for debug messages.
fn log_line(params: &Value) -> Option<String> {
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    let level = text("level").unwrap_or("info");
    if level == "debug" {
        return None;
    }
    let data = match params.get("data")? {
        Value::String(data) => data.clone(),
        data => data.to_string(),
    };
    let source =
        text("logger").map_or_else(String::new, |logger| format!("{}: ", start_of(logger)));
    let data: String = data.chars().take(LOG_CHARACTERS).collect();
    Some(format!("[{}] {source}{data}", start_of(level)))
}

fn token_id(token: &Value) -> Option<u64> {
    token.as_u64().or_else(|| token.as_str()?.parse().ok())
}

/// A reply as MCP has it: three kinds of result for an elicitation, and an error where the client
/// cannot be asked or answered with one.
pub(crate) fn answer_to(kind: QuestionKind, reply: Reply) -> Result<Value, RpcError> {
    match (kind, reply) {
        (QuestionKind::Elicitation, Reply::Accept(Value::Null)) => Ok(json!({"action": "accept"})),
        (QuestionKind::Elicitation, Reply::Accept(content)) => {
            Ok(json!({"action": "accept", "content": content}))
        }
        (QuestionKind::Elicitation, Reply::Decline) => Ok(json!({"action": "decline"})),
        (QuestionKind::Elicitation, Reply::Cancel) => Ok(json!({"action": "cancel"})),
        (QuestionKind::Sampling, Reply::Accept(result)) => Ok(result),
        (_, Reply::Failed(error)) => Err(error),
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
