//! The client of one run, as servers behind the bridge reach it: their questions are passed on to
//! it, and what they report becomes progress of the call.
//!
//! Protocol revisions with `initialize` let a server send requests to the client. Later ones do
//! not: there a question becomes the answer to the call, and the client calls again with the reply.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, CustomNotification, CustomRequest, CustomResult, ProtocolVersion,
    ServerNotification, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, ServiceError};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::inbox::Inbox;
use super::progress::Steps;
use super::questions::{Offers, error_of, readable, reply_of};
use bridge_common::Mutex;
use bridge_upstream::{Event, Interact, Question, QuestionKind, Reply};

/// The most questions of one run.
const MAX_QUESTIONS: usize = 100;
/// How long a client that does not read has to take a notification.
const SEND: Duration = Duration::from_secs(5);
/// The most characters of a server's log line.
const LOG_CHARACTERS: usize = 2_000;

/// The client of one run.
pub(super) struct Relay {
    offers: Offers,
    route: Route,
    steps: Steps,
    asked: AtomicUsize,
    /// The `elicitationId` of each page that the user was asked to open, until it is done.
    pages: Mutex<HashSet<String>>,
}

/// Whether the client's protocol revision requires questions to go into answers.
pub(super) fn asks_in_answers(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// How questions reach the client.
enum Route {
    Requests(Peer<RoleServer>),
    Answers(Arc<Inbox>),
}

impl Relay {
    /// Makes the relay of a run, and the inbox of questions that wait for the client to call again.
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        steps: Steps,
    ) -> (Arc<Self>, Arc<Inbox>) {
        let inbox = Arc::<Inbox>::default();
        let route = if asks_in_answers(context) {
            Route::Answers(Arc::clone(&inbox))
        } else {
            Route::Requests(context.peer.clone())
        };
        let relay = Self {
            offers: Offers::new(context.client_capabilities().as_ref()),
            route,
            steps,
            asked: AtomicUsize::new(0),
            pages: Mutex::default(),
        };
        (Arc::new(relay), inbox)
    }
}

#[async_trait]
impl Interact for Relay {
    fn offers(&self) -> Value {
        self.offers.to_json()
    }

    async fn request(&self, question: Question) -> Reply {
        let params = match self.offers.relayed(&question) {
            Ok(params) => params,
            Err(why) => return Reply::Unsupported(why),
        };
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS {
            return Reply::Unsupported(format!(
                "this run has asked {MAX_QUESTIONS} questions already"
            ));
        }
        if let Some(page) = params.get("elicitationId").and_then(Value::as_str) {
            self.pages.lock().insert(page.to_owned());
        }
        let kind = question.kind;
        match &self.route {
            Route::Requests(peer) => request(peer.clone(), kind, params, &question.cancel).await,
            Route::Answers(inbox) => inbox.ask(kind, params).await,
        }
    }

    fn notify(&self, event: Event) {
        match event {
            Event::Progress {
                server,
                tool,
                params,
            } => {
                let source = format!("{server}.{tool}");
                let message = match params.get("message").and_then(Value::as_str) {
                    Some(message) if !message.is_empty() => format!("{source}: {message}"),
                    _ => source.clone(),
                };
                let number = |name: &str| params.get(name).and_then(Value::as_f64);
                let done = number("progress").unwrap_or_default();
                self.steps.set(source, &message, done, number("total"));
            }
            Event::Log { server, params } => {
                let level = params
                    .get("level")
                    .and_then(Value::as_str)
                    .unwrap_or("info");
                let data = params
                    .get("data")
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let line = readable(&data, LOG_CHARACTERS);
                tracing::debug!(server.name = %server, level, line, "log line of a server");
            }
            // Sent once for each page that this client was shown. Where questions go into answers,
            // the client calls again by itself.
            Event::ElicitationDone { id, .. } => {
                let was_shown = self.pages.lock().remove(&id);
                if let (true, Route::Requests(peer)) = (was_shown, &self.route) {
                    let peer = peer.clone();
                    let params = Some(json!({ "elicitationId": id }));
                    let told =
                        CustomNotification::new("notifications/elicitation/complete", params);
                    tokio::spawn(async move {
                        let told = ServerNotification::CustomNotification(told);
                        let _ = tokio::time::timeout(SEND, peer.send_notification(told)).await;
                    });
                }
            }
        }
    }
}

/// Asks with a request, and cancels it at the client when the caller stops waiting.
async fn request(
    peer: Peer<RoleServer>,
    kind: QuestionKind,
    params: Value,
    cancel: &CancellationToken,
) -> Reply {
    let given_up = cancel.child_token();
    let _guard = given_up.clone().drop_guard();
    let (tell, told) = oneshot::channel();
    // In a task of its own, which outlives this future: the client must be told that the call is
    // over.
    tokio::spawn(async move {
        let request = CustomRequest::new(kind.method(), Some(params));
        let request = ServerRequest::CustomRequest(request);
        let options = PeerRequestOptions::no_options();
        let mut handle = match peer.send_cancellable_request(request, options).await {
            Ok(handle) => handle,
            Err(error) => return drop(tell.send(Err(error))),
        };
        tokio::select! {
            biased;
            answer = &mut handle.rx => {
                let _ = tell.send(answer.unwrap_or(Err(ServiceError::TransportClosed)));
            }
            () = given_up.cancelled() => {
                let reason = Some("the call that asked is over".to_owned());
                let _ = tokio::time::timeout(SEND, handle.cancel(reason)).await;
            }
        }
    });
    match told.await {
        Ok(Ok(result)) => reply_of(kind, to_json(result)),
        Ok(Err(ServiceError::McpError(error))) => error_of(error),
        Ok(Err(error)) => Reply::Unsupported(error.to_string()),
        Err(_) => Reply::Cancel,
    }
}

/// The result as JSON, whichever type rmcp has decoded it to.
fn to_json(result: ClientResult) -> Value {
    match result {
        ClientResult::CustomResult(CustomResult(result)) => result,
        result => serde_json::to_value(result).unwrap_or_default(),
    }
}
