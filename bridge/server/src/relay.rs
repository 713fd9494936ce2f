//! The client of one run, as servers behind the bridge reach it: questions go on to it, what they report becomes its
//! progress.
//!
//! How a question travels depends on the era. Revisions with `initialize` let a server send the client requests; those
//! without let it only answer, so there a question becomes the answer, and the call comes back with what was said.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
use bridge_upstream::{Event, Interact, Question, QuestionKind, Reply};

/// Questions of one run. A server that asks on and on is told so in the end.
const MOST_QUESTIONS: usize = 100;
/// For a client that does not read to be told that its answer is of no use any more.
const SEND: Duration = Duration::from_secs(5);
/// Characters of a log line of a server.
const LOG_CHARACTERS: usize = 2_000;

/// The client of one run.
pub(super) struct Relay {
    offers: Offers,
    way: Way,
    steps: Steps,
    asked: AtomicUsize,
    /// The `elicitationId` of each page that the user was asked to open.
    pages: Mutex<HashSet<String>>,
}

/// Whether questions to this client have to go into answers.
pub(super) fn asks_in_answers(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// How questions reach the client.
enum Way {
    Requests(Peer<RoleServer>),
    Results(Arc<Inbox>),
}

impl Relay {
    /// For the run that `context` asks for, with the questions that have to wait for the client to come back.
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        steps: Steps,
    ) -> (Arc<Self>, Arc<Inbox>) {
        let inbox = Arc::<Inbox>::default();
        let way = if asks_in_answers(context) {
            Way::Results(Arc::clone(&inbox))
        } else {
            Way::Requests(context.peer.clone())
        };
        let relay = Self {
            offers: Offers::new(context.client_capabilities().as_ref()),
            way,
            steps,
            asked: AtomicUsize::new(0),
            pages: Mutex::default(),
        };
        (Arc::new(relay), inbox)
    }
}

impl Relay {
    fn pages(&self) -> MutexGuard<'_, HashSet<String>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
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
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MOST_QUESTIONS {
            return Reply::Unsupported(format!(
                "this run has asked {MOST_QUESTIONS} questions already"
            ));
        }
        if let Some(page) = params.get("elicitationId").and_then(Value::as_str) {
            self.pages().insert(page.to_owned());
        }
        let kind = question.kind;
        match &self.way {
            Way::Requests(peer) => request(peer.clone(), kind, params, &question.cancel).await,
            Way::Results(inbox) => inbox.ask(kind, params).await,
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
                tracing::debug!(server.name = %server, level, line, "a server logs");
            }
            // Once for each page that this client was shown; where questions go into answers, the client comes back itself.
            Event::ElicitationDone { id, .. } => {
                let was_shown = self.pages().remove(&id);
                if let (true, Way::Requests(peer)) = (was_shown, &self.way) {
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

/// Asks by a request. When nobody waits for the answer any more, the client is told.
async fn request(
    peer: Peer<RoleServer>,
    kind: QuestionKind,
    params: Value,
    cancel: &CancellationToken,
) -> Reply {
    let given_up = cancel.child_token();
    let _guard = given_up.clone().drop_guard();
    let (tell, told) = oneshot::channel();
    // A task of its own: this future is dropped when the call is over, and the client has to hear of that.
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
        Ok(Ok(result)) => reply_of(kind, raw(result)),
        Ok(Err(ServiceError::McpError(error))) => error_of(error),
        Ok(Err(error)) => Reply::Unsupported(error.to_string()),
        Err(_) => Reply::Cancel,
    }
}

/// A result as it came; rmcp decodes what it knows.
fn raw(result: ClientResult) -> Value {
    match result {
        ClientResult::CustomResult(CustomResult(result)) => result,
        result => serde_json::to_value(result).unwrap_or_default(),
    }
}
