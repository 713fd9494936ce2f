//! The MCP server over streamable HTTP, on loopback and for holders of a token.
//!
//! rmcp speaks the protocol; this listens, bounds, and keeps out browsers and everybody without the token.

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

/// Where the protocol is spoken.
pub const PATH: &str = "/mcp";

/// Connections at once; more wait to be accepted.
const CONNECTIONS: usize = 128;

/// For the headers of a request to arrive, and for a connection to be idle.
const HEADERS: Duration = Duration::from_secs(30);

/// Before the next try after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// For runs that were given up to be answered, and for answers to be read.
const DRAIN: Duration = Duration::from_millis(500);

type Body = BoxBody<Bytes, Infallible>;
type Service = StreamableHttpService<Server, LocalSessionManager>;

/// What does not change from one connection to the next.
struct Door {
    service: Service,
    token: Token,
}

/// Serves until `closing` fires, then for a moment more, so that what is under way is answered. A client that says nothing for
/// `idle` is taken to be gone.
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
        // No browser has business here: whatever names an origin is refused. So are names that are not of this machine.
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_LINE)
        .with_cancellation_token(stop.clone());
    let servers = closing.clone();
    let service = StreamableHttpService::new(
        move || {
            let client = clients.client();
            Ok(Server::new(client, defaults.clone(), servers.child_token()).of_one_request())
        },
        Arc::new(manager),
        config,
    );
    let door = Arc::new(Door { service, token });
    let connections = TaskTracker::new();
    accept(&listener, &door, &connections, &closing).await;
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait())
        .await
        .is_err()
    {
        tracing::debug!(connections = connections.len(), "connections given up");
    }
    stop.cancel();
}

async fn accept(
    listener: &TcpListener,
    door: &Arc<Door>,
    connections: &TaskTracker,
    closing: &CancellationToken,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (door, closing) = (Arc::clone(door), closing.clone());
                connections.spawn(async move {
                    serve_connection(stream, door, closing).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, door: Arc<Door>, closing: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(|request| {
                let door = Arc::clone(&door);
                async move { Ok::<_, Infallible>(door.answer(request).await) }
            }),
        );
    let mut connection = pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // Cut short by whoever waits for the connections.
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

impl Door {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if !self.token.is_in(request.headers().get(AUTHORIZATION)) {
            let mut response = refuse(StatusCode::UNAUTHORIZED, "a bearer token is needed");
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return response;
        }
        if request.uri().path() != PATH {
            return refuse(StatusCode::NOT_FOUND, "MCP is spoken at /mcp");
        }
        self.service.handle(request).await
    }
}

fn refuse(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
