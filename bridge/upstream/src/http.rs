//! A server behind a streamable HTTP endpoint: rmcp's transport below, raw JSON above.
//!
//! rmcp looks after sessions (a lost one is made anew, once), event streams that break off, and the headers of both
//! protocol eras. Requests are independent of each other: one that fails leaves the connection as it is.

mod body;
mod exact;
pub mod oauth;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{
    ErrorCode, ErrorData, GetExtensions as _, JsonRpcMessage, NumberOrString, ServerJsonRpcMessage,
};
use rmcp::service::InboundStreamOrigin;
use rmcp::transport::auth::{AuthClient, AuthError};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::exact::Exact;
use super::connection::{Connection, Failure, OnChange, Outbox};
use super::message::{Answer, Incoming, Outgoing, start_of};
use super::payload::{ENVELOPE, LARGE};
use super::stdio::limited;
use bridge_catalog::ServerName;

/// Messages waiting to be sent.
const QUEUE: usize = 64;
/// Messages that rmcp's transport may keep for us.
const KEPT: usize = 4;
/// Time for errors of requests to arrive before that of the whole connection counts.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Time to say goodbye to a server.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Where a server is, and what it is sent.
pub(super) struct Endpoint<'a> {
    pub(super) server: &'a ServerName,
    pub(super) url: &'a str,
    pub(super) headers: &'a BTreeMap<String, SecretString>,
    /// Tokens of an earlier login, where there may be some.
    pub(super) tokens: Option<oauth::Tokens>,
    pub(super) result_bytes: usize,
    /// Room for large answers.
    pub(super) large: Arc<Semaphore>,
    /// Requests at once.
    pub(super) parallel: usize,
}

/// An open link to an endpoint. Clones are the same link; it closes when told to, or with its connection.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) connection: Arc<Connection>,
    stop: CancellationToken,
}

type Error = StreamableHttpError<reqwest::Error>;

impl Link {
    /// Opens one. Nothing is sent yet but what tokens need.
    pub(super) async fn open(endpoint: Endpoint<'_>, on_change: OnChange) -> Result<Self, String> {
        let client = Exact::new(endpoint.url)?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url)
            .custom_headers(headers(endpoint.headers)?)
            .max_concurrent_requests(endpoint.parallel)
            .max_sse_event_size(endpoint.result_bytes + 2 * ENVELOPE)
            .max_json_response_size(endpoint.result_bytes + 2 * ENVELOPE);
        config.channel_buffer_capacity = KEPT;
        let (sender, queue) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let connection =
            Connection::new(endpoint.server.clone(), Box::new(Queue(sender)), on_change);
        let link = Self { connection, stop };
        let pump = Pump {
            link: link.clone(),
            queue,
            result_bytes: endpoint.result_bytes,
            large: endpoint.large,
            has_credentials: has_credentials(endpoint.headers),
        };
        match endpoint.tokens {
            Some(tokens) => {
                let manager = tokens.manager(endpoint.url).await?;
                let client = AuthClient::new(client, manager);
                tokio::spawn(pump.run(StreamableHttpClientTransport::with_client(client, config)));
            }
            None => drop(tokio::spawn(
                pump.run(StreamableHttpClientTransport::with_client(client, config)),
            )),
        }
        Ok(link)
    }

    /// Closes it: a session is deleted at the server.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        self.connection.ended().await;
    }

    /// Closes it when dropped, unless disarmed.
    pub(super) fn stop_guard(&self) -> tokio_util::sync::DropGuard {
        self.stop.clone().drop_guard()
    }
}

fn headers(
    headers: &BTreeMap<String, SecretString>,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (&String, &SecretString)| {
        let parsed =
            HeaderName::try_from(name).map_err(|_| format!("{name:?} is no name of a header"))?;
        let mut value = HeaderValue::try_from(value.expose_secret()).map_err(|_| {
            format!("the value of the header {name} has characters that headers cannot have")
        })?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    headers.iter().map(header).collect()
}

/// Whether some header is meant to say who asks.
fn has_credentials(headers: &BTreeMap<String, SecretString>) -> bool {
    const SIGNS: [&str; 5] = ["auth", "key", "token", "secret", "cookie"];
    headers
        .keys()
        .map(|name| name.to_ascii_lowercase())
        .any(|name| SIGNS.iter().any(|sign| name.contains(sign)))
}

/// The way to the task that owns the transport.
struct Queue(mpsc::Sender<Outgoing>);

#[async_trait]
impl Outbox for Queue {
    async fn send(&self, message: Outgoing) -> Result<(), Failure> {
        let closed = |_| Failure::Closed {
            reason: "the connection is closed".to_owned(),
            sent: false,
        };
        self.0.send(message).await.map_err(closed)
    }

    fn try_send(&self, message: Outgoing) -> bool {
        self.0.try_send(message).is_ok()
    }
}

struct Pump {
    link: Link,
    queue: mpsc::Receiver<Outgoing>,
    result_bytes: usize,
    large: Arc<Semaphore>,
    has_credentials: bool,
}

impl Pump {
    async fn run(mut self, mut transport: impl Transport<RoleClient, Error = Error> + 'static) {
        let connection = Arc::clone(&self.link.connection);
        let mut sending = FuturesUnordered::new();
        let reason = loop {
            tokio::select! {
                message = transport.receive() => match message {
                    Some(message) => self.received(message).await,
                    None => break "the connection was closed",
                },
                Some(message) = self.queue.recv() => {
                    let id = match &message {
                        Outgoing::Request { id, .. } => Some(*id),
                        _ => None,
                    };
                    match exact::message(message) {
                        Ok(message) => {
                            let sent = transport.send(message);
                            sending.push(async move { (id, sent.await) });
                        }
                        Err(error) => {
                            let what = format!("it cannot be sent: {error}");
                            if let Some(id) = id {
                                connection.fail(id, Failure::Transport { what, seen: false });
                            }
                        }
                    }
                },
                Some((id, sent)) = sending.next() => {
                    if let (Some(id), Err(error)) = (id, sent) {
                        connection.fail(id, self.failure(&error));
                    }
                }
                () = self.link.stop.cancelled() => break "the connection was closed by the bridge",
            }
        };
        // A transport that ends because of a request has told that request why.
        while let Ok(Some((id, sent))) = tokio::time::timeout(LAST_WORDS, sending.next()).await {
            if let (Some(id), Err(error)) = (id, sent) {
                connection.fail(id, self.failure(&error));
            }
        }
        drop(sending);
        if tokio::time::timeout(CLOSE_GRACE, transport.close())
            .await
            .is_err()
        {
            tracing::debug!(server.name = %connection.server(), "server was slow to delete its session");
        }
        connection.close(reason);
    }

    async fn received(&self, message: ServerJsonRpcMessage) {
        let id = |id: &NumberOrString| match id {
            NumberOrString::Number(id) => u64::try_from(*id).ok(),
            NumberOrString::String(id) => id.parse().ok(),
        };
        let message = match message {
            JsonRpcMessage::Response(response) => {
                let id = id(&response.id);
                let answer = Answer::Result(exact::result(response.result));
                limited(Incoming::Answer { id, answer }, self.result_bytes)
            }
            JsonRpcMessage::Error(error) if is_of_transport(&error.error) => {
                let failure = if error.error.message == exact::TOO_LARGE {
                    Failure::TooLarge {
                        bytes: self.result_bytes as u64,
                    }
                } else {
                    Failure::Transport {
                        what: error.error.message.into_owned(),
                        seen: true,
                    }
                };
                if let Some(id) = error.id.as_ref().and_then(id) {
                    self.link.connection.fail(id, failure);
                }
                return;
            }
            JsonRpcMessage::Request(request) => {
                let origin = match request.request.extensions().get::<InboundStreamOrigin>() {
                    Some(InboundStreamOrigin::OutboundRequest(request)) => id(request),
                    _ => None,
                };
                match raw(&JsonRpcMessage::Request(request)) {
                    Some(Incoming::Request {
                        id, method, params, ..
                    }) => Incoming::Request {
                        id,
                        method,
                        params,
                        origin,
                    },
                    _ => return,
                }
            }
            message => match raw(&message) {
                Some(message) => message,
                None => return,
            },
        };
        // Whoever sends so much waits until there is room.
        let message = match message {
            Incoming::Answer {
                id,
                answer: Answer::Result(result),
            } if result.get().len() > LARGE => {
                let claim = Arc::clone(&self.large).acquire_owned().await.ok();
                Incoming::Answer {
                    id,
                    answer: Answer::Result(result.claimed(claim)),
                }
            }
            message => message,
        };
        self.link.connection.receive(message);
    }

    /// An error of one request, in words.
    fn failure(&self, error: &Error) -> Failure {
        let seen = |what: String| Failure::Transport { what, seen: true };
        match error {
            StreamableHttpError::AuthRequired(_)
            | StreamableHttpError::Auth(AuthError::AuthorizationRequired) => {
                Failure::Unauthorized(if self.has_credentials {
                    "rejected the configured credentials (401 Unauthorized)".to_owned()
                } else {
                    "needs a login; the user can do that with: mcp-code-bridge servers login"
                        .to_owned()
                })
            }
            StreamableHttpError::InsufficientScope(error) => {
                let scope = error.get_required_scope().unwrap_or("another scope");
                Failure::Unauthorized(format!(
                    "wants a token with more rights ({})",
                    start_of(scope)
                ))
            }
            StreamableHttpError::Auth(error) => {
                Failure::Unauthorized(format!("could not be logged in to: {}", chain(error)))
            }
            StreamableHttpError::Client(error) => Failure::Transport {
                what: connect_error(error),
                seen: !error.is_connect(),
            },
            StreamableHttpError::ResponseBodyTooLarge { max_size } => Failure::TooLarge {
                bytes: *max_size as u64,
            },
            StreamableHttpError::HttpStatus(error) => seen(match &error.retry_after {
                Some(retry) => format!("HTTP {} (retry after {})", error.status, start_of(retry)),
                None => format!("HTTP {}", error.status),
            }),
            StreamableHttpError::UnexpectedServerResponse(what) => seen(match what {
                Cow::Borrowed(what) => (*what).to_owned(),
                Cow::Owned(what) => what.clone(),
            }),
            error => seen(chain(error)),
        }
    }
}

/// Errors that no server sent: rmcp's transport, or ours, lost an answer.
fn is_of_transport(error: &ErrorData) -> bool {
    error.code == ErrorCode::INTERNAL_ERROR
        && (error.message.starts_with("streamable HTTP ") || error.message == exact::TOO_LARGE)
}

fn raw(message: &ServerJsonRpcMessage) -> Option<Incoming> {
    let mut found = None;
    let text = serde_json::to_string(message).ok()?;
    Incoming::read(&text, &mut |message| found = Some(message)).ok()?;
    found
}

/// Without the address, which may hold a key.
fn connect_error(error: &reqwest::Error) -> String {
    let deepest =
        std::iter::successors(std::error::Error::source(error), |error| error.source()).last();
    match deepest {
        Some(cause) if error.is_connect() => format!("it cannot be reached: {cause}"),
        Some(cause) => format!("the connection failed: {cause}"),
        None if error.is_timeout() => "the connection timed out".to_owned(),
        None => "the connection failed".to_owned(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Whether the endpoint speaks the transport of 2024: a stream of events that begins with the address to post to.
pub(super) async fn is_legacy_sse(url: &str, configured: &BTreeMap<String, SecretString>) -> bool {
    let (Ok(client), Ok(headers)) = (exact::client(), headers(configured)) else {
        return false;
    };
    let mut request = client
        .get(url)
        .header(http::header::ACCEPT, "text/event-stream")
        .timeout(CLOSE_GRACE);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let Ok(response) = request.send().await else {
        return false;
    };
    let kind = response
        .headers()
        .get(http::header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    response.status().is_success() && kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// For `serde_json::Value` in [`exact`].
type Object = serde_json::Map<String, serde_json::Value>;
