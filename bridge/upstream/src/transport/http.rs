//! A server behind a streamable HTTP endpoint, in both eras of the protocol.
//!
//! Each message is a request of its own, on a task of its own: one that fails leaves the others and
//! the connection as they are. A session that the server no longer knows ends the connection; a
//! request that was refused for that reason was not seen, so its caller may repeat it on a new one.

mod answer;
mod error;
mod events;
mod exchange;
mod headers;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bridge_common::Mutex;
use http::{HeaderMap, HeaderValue};
use secrecy::SecretString;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub(crate) use self::error::{EndpointError, with_root_cause};
use self::headers::Parameter;
use super::inbox::Inbox;
use crate::connection::{Connection, OnChange, Outbox};
use crate::failure::Failure;
use crate::http_client::client;
use crate::message::Outgoing;
use crate::oauth::{Login, Tokens};
use crate::tool_list::ToolList;
use bridge_catalog::ServerName;

/// Answers and cancellations on their way at once; more are dropped.
const MOST_CONTROLS: usize = 64;
/// Time for the server to take an answer or a cancellation.
const CONTROL_TIME: Duration = Duration::from_secs(5);
/// Time for the server to delete its session.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Where a server is, and what it is sent.
pub(crate) struct Endpoint<'a> {
    pub(crate) server: &'a ServerName,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a BTreeMap<String, SecretString>,
    /// The place for tokens of a login, where there is one.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) result_bytes: usize,
    /// Room for large answers, shared by all servers.
    pub(crate) large: Arc<Semaphore>,
}

/// An open link to an endpoint. It ends when told to, or with its session.
pub(crate) struct Link {
    pub(crate) connection: Arc<Connection>,
    stop: CancellationToken,
}

impl Link {
    /// Opens a link. Nothing is sent yet but what tokens need.
    pub(crate) async fn open(
        endpoint: Endpoint<'_>,
        on_change: OnChange,
    ) -> Result<Self, EndpointError> {
        let server = endpoint.server.clone();
        let http = Arc::new(Http::new(endpoint).await?);
        let connection = Connection::new(server, Box::new(Arc::clone(&http)), on_change);
        let _ = http.connection.set(Arc::downgrade(&connection));
        let stop = http.stop.clone();
        tokio::spawn(supervise(http, Arc::clone(&connection)));
        Ok(Self { connection, stop })
    }

    /// Ends it: a session is deleted at the server.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.connection.ended().await;
    }

    /// Ends it when dropped, unless disarmed.
    pub(crate) fn stop_guard(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }
}

/// Waits for the end of a link, and closes its connection.
async fn supervise(http: Arc<Http>, connection: Arc<Connection>) {
    tokio::select! {
        () = http.stop.cancelled() => {
            if timeout(CLOSE_GRACE, http.delete_session()).await.is_err() {
                tracing::debug!(server.name = %connection.server(), "server was slow to delete its session");
            }
            connection.close("the connection was closed by the bridge");
        }
        // The session is lost. What the server answers meanwhile still counts.
        () = connection.ended() => {
            http.listening.cancel();
            http.tasks.close();
            tokio::select! {
                () = http.tasks.wait() => {}
                () = http.stop.cancelled() => {}
            }
            connection.close("the session was lost");
        }
    }
}

/// The client of one endpoint.
struct Http {
    client: reqwest::Client,
    url: reqwest::Url,
    /// Headers of the definition.
    headers: HeaderMap,
    has_credentials: bool,
    login: Option<Login>,
    tokens: Option<Tokens>,
    result_bytes: usize,
    large: Arc<Semaphore>,
    connection: OnceLock<Weak<Connection>>,
    session: Mutex<Session>,
    /// Ends the request of this id.
    requests: Mutex<HashMap<u64, CancellationToken>>,
    /// Arguments of tools that go into headers.
    parameters: Mutex<HashMap<String, Vec<Parameter>>>,
    controls: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Ends the stream of what belongs to no request.
    listening: CancellationToken,
    /// Ends all tasks of this link.
    stop: CancellationToken,
}

/// What was agreed on with the server.
#[derive(Debug, Clone, Default)]
struct Session {
    id: Option<HeaderValue>,
    protocol: Option<String>,
}

impl Session {
    /// The headers of every request in this session.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(id) = &self.id {
            headers.insert(headers::SESSION, id.clone());
        }
        let protocol = self.protocol.as_deref();
        if let Some(protocol) = protocol.and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.insert(headers::PROTOCOL, protocol);
        }
        headers
    }

    /// Revisions from 2026-07-28 on have no sessions: ending a request's stream cancels the
    /// request.
    fn is_cancelled_by_its_stream(&self) -> bool {
        self.id.is_none()
            && self
                .protocol
                .as_deref()
                .is_some_and(headers::are_standard_in)
    }
}

impl Http {
    async fn new(endpoint: Endpoint<'_>) -> Result<Self, EndpointError> {
        let url =
            reqwest::Url::parse(endpoint.url).map_err(|error| EndpointError::Url(error.into()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EndpointError::Scheme(url.scheme().to_owned()));
        }
        let login = match &endpoint.tokens {
            Some(tokens) if tokens.exist() => Some(
                Login::open(tokens, endpoint.url)
                    .await
                    .map_err(EndpointError::Login)?,
            ),
            _ => None,
        };
        let stop = CancellationToken::new();
        Ok(Self {
            client: client().map_err(EndpointError::Client)?,
            url,
            headers: headers::configured(endpoint.headers)?,
            has_credentials: headers::have_credentials(endpoint.headers),
            login,
            tokens: endpoint.tokens,
            result_bytes: endpoint.result_bytes,
            large: endpoint.large,
            connection: OnceLock::new(),
            session: Mutex::default(),
            requests: Mutex::default(),
            parameters: Mutex::default(),
            controls: Arc::new(Semaphore::new(MOST_CONTROLS)),
            tasks: TaskTracker::new(),
            listening: stop.child_token(),
            stop,
        })
    }

    fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.get()?.upgrade()
    }

    fn inbox(&self) -> Option<Inbox> {
        Some(Inbox {
            connection: self.connection()?,
            result_bytes: self.result_bytes,
            large: Arc::clone(&self.large),
        })
    }

    fn session(&self) -> Session {
        self.session.lock().clone()
    }

    /// Sends a request on a task of its own, which fails it where the answer is lost.
    fn start_request(self: &Arc<Self>, id: u64, message: Outgoing) {
        let token = self.stop.child_token();
        self.requests.lock().insert(id, token.clone());
        let http = Arc::clone(self);
        self.tasks.spawn(async move {
            let failed = tokio::select! {
                answered = http.request(id, message) => answered.err(),
                () = token.cancelled() => None,
            };
            http.requests.lock().remove(&id);
            if let (Some(failure), Some(connection)) = (failed, http.connection()) {
                connection.fail(id, failure);
            }
        });
    }

    /// Sends an answer or a notification on a task of its own, where not too many are on their way.
    fn start_control(self: &Arc<Self>, message: Outgoing) -> bool {
        let Ok(permit) = Arc::clone(&self.controls).try_acquire_owned() else {
            return false;
        };
        let http = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::select! {
                _ = timeout(CONTROL_TIME, http.control(message)) => {}
                () = http.stop.cancelled() => {}
            }
            drop(permit);
        });
        true
    }

    async fn control(self: &Arc<Self>, message: Outgoing) -> Result<(), Failure> {
        let cancelled = match &message {
            Outgoing::Notification { method, params } if *method == "notifications/cancelled" => {
                params.get("requestId").and_then(Value::as_u64)
            }
            _ => None,
        };
        let request = cancelled.and_then(|id| self.requests.lock().remove(&id));
        let sent = if request.is_some() && self.session().is_cancelled_by_its_stream() {
            Ok(())
        } else {
            self.notify(message).await
        };
        // Only now: the server may look at the stream of a request that it is told to cancel.
        if let Some(request) = request {
            request.cancel();
        }
        sent
    }
}

#[async_trait]
impl Outbox for Arc<Http> {
    async fn send(&self, message: Outgoing) -> Result<(), Failure> {
        match message {
            Outgoing::Request { id, .. } => {
                self.start_request(id, message);
                Ok(())
            }
            Outgoing::Notification {
                method: "notifications/initialized",
                ..
            } => {
                // What follows needs the server to have taken this.
                self.control(message).await?;
                self.listen();
                Ok(())
            }
            message => self.control(message).await,
        }
    }

    fn try_send(&self, message: Outgoing) -> bool {
        self.start_control(message)
    }

    fn protocol_agreed(&self, protocol: &str) {
        self.session.lock().protocol = Some(protocol.to_owned());
    }

    /// Tools whose arguments go into headers need annotations that are valid.
    fn tools_listed(&self, list: &mut ToolList) {
        let session = self.session();
        if !session
            .protocol
            .as_deref()
            .is_some_and(headers::are_standard_in)
        {
            return;
        }
        let mut parameters = HashMap::new();
        list.tools
            .retain(|tool| match Parameter::all_of(&tool.input_schema) {
                Ok(found) => {
                    if !found.is_empty() {
                        parameters.insert(tool.name.clone(), found);
                    }
                    true
                }
                Err(reason) => {
                    list.skipped.insert(tool.name.clone(), reason);
                    false
                }
            });
        *self.parameters.lock() = parameters;
    }
}

/// Whether the endpoint speaks the transport of 2024: a GET is answered with a stream of events,
/// which begins with the address to post to.
pub(crate) async fn is_legacy_sse(url: &str, configured: &BTreeMap<String, SecretString>) -> bool {
    let (Ok(client), Ok(headers)) = (client(), headers::configured(configured)) else {
        return false;
    };
    let request = client
        .get(url)
        .headers(headers)
        .header(http::header::ACCEPT, events::MEDIA_TYPE)
        .timeout(CLOSE_GRACE);
    let Ok(response) = request.send().await else {
        return false;
    };
    response.status().is_success() && answer::media_type(&response).starts_with(events::MEDIA_TYPE)
}

/// The fields of a message.
type Object = Map<String, Value>;
