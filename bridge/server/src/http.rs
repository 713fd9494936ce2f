//! The MCP server over streamable HTTP, on loopback and for holders of a token.
//!
//! rmcp speaks the protocol. This module listens, limits connections, and rejects browsers and
//! requests without the token.

mod clients;
mod token;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::line::MAX_LINE;
use super::{CallDefaults, Server};

pub use clients::Clients;
pub use token::{Error as TokenError, Token};

/// Path of the MCP endpoint.
pub const PATH: &str = "/mcp";

/// The most connections at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 128;

/// How long the headers of a request may take, and how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long cancelled runs have to be answered, and clients to read the answers.
const DRAIN: Duration = Duration::from_millis(500);

type Body = BoxBody<Bytes, Infallible>;
type Service = StreamableHttpService<Server, LocalSessionManager>;

/// What all connections share.
struct Endpoint {
    service: Service,
    token: Token,
}

/// Serves until `closing` fires, and for [`DRAIN`] longer, so that requests under way are answered.
/// The session of a client that sends nothing for `idle` ends.
pub async fn serve_http(
    listener: TcpListener,
    token: Token,
    clients: Arc<Clients>,
    defaults: CallDefaults,
    idle: Option<Duration>,
    closing: CancellationToken,
) {
    let stop = CancellationToken::new();
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = idle;
    let config = StreamableHttpServerConfig::default()
        // Rejects every request with an origin, since browsers have no business here, and every
        // host name but those of this machine.
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_LINE)
        .with_cancellation_token(stop.clone());
    let servers = closing.clone();
    let service = StreamableHttpService::new(
        move || {
            let client = clients.client();
            Ok(Server::new(client, defaults.clone(), servers.child_token()).for_one_request())
        },
        Arc::new(manager),
        config,
    );
    let endpoint = Arc::new(Endpoint { service, token });
    let connections = TaskTracker::new();
    accept(&listener, &endpoint, &connections, &closing).await;
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait())
        .await
        .is_err()
    {
        tracing::debug!(
            connections = connections.len(),
            "dropped connections that did not end in time"
        );
    }
    stop.cancel();
}

async fn accept(
    listener: &TcpListener,
    endpoint: &Arc<Endpoint>,
    connections: &TaskTracker,
    closing: &CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (endpoint, closing) = (Arc::clone(endpoint), closing.clone());
                connections.spawn(async move {
                    serve_connection(stream, endpoint, closing).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, endpoint: Arc<Endpoint>, closing: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(|request| {
                let endpoint = Arc::clone(&endpoint);
                async move { Ok::<_, Infallible>(endpoint.answer(request).await) }
            }),
        );
    let mut connection = pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // `serve_http` waits no longer than this either.
            match tokio::time::timeout(DRAIN, connection).await {
                Ok(result) => result,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

impl Endpoint {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if !self.token.is_in(request.headers().get(AUTHORIZATION)) {
            let mut response = reject(
                StatusCode::UNAUTHORIZED,
                "missing or wrong bearer token: send it in the Authorization header",
            );
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return response;
        }
        if request.uri().path() != PATH {
            return reject(StatusCode::NOT_FOUND, "not found: the MCP endpoint is /mcp");
        }
        self.service.handle(request).await
    }
}

fn reject(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
