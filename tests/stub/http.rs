//! The stub server over streamable HTTP.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use crate::server::Server;

/// State of the HTTP server.
struct Endpoint {
    server: Arc<Server>,
    /// Session IDs, and how many more requests each accepts.
    sessions: Mutex<HashMap<String, usize>>,
    /// Events for a client that resumes after the event with this ID.
    kept: Mutex<HashMap<String, mpsc::UnboundedReceiver<Vec<u8>>>>,
}

pub(crate) async fn serve(server: Arc<Server>) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let line = format!("listening on http://{}/mcp\n", listener.local_addr()?);
    tokio::io::stdout().write_all(line.as_bytes()).await?;
    tokio::io::stdout().flush().await?;
    let endpoint = Endpoint {
        server,
        sessions: Mutex::default(),
        kept: Mutex::default(),
    };
    let routes = Router::new()
        .route("/mcp", post(posted).get(resumed).delete(deleted))
        .with_state(Arc::new(endpoint));
    axum::serve(listener, routes).await?;
    Ok(())
}

async fn posted(
    State(endpoint): State<Arc<Endpoint>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match endpoint.post(&headers, &body).await {
        Ok(response) => response,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn resumed(State(endpoint): State<Arc<Endpoint>>, headers: HeaderMap) -> Response {
    if endpoint.server.scenario.http.legacy {
        let start = "event: endpoint\ndata: /messages?session=1\n\n";
        return ([(header::CONTENT_TYPE, "text/event-stream")], start).into_response();
    }
    let event = text(&headers, "last-event-id");
    let kept = event.and_then(|event| lock(&endpoint.kept).remove(event));
    match kept {
        Some(kept) => events(kept, None),
        None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

async fn deleted(State(endpoint): State<Arc<Endpoint>>, headers: HeaderMap) -> Response {
    if let Some(session) = text(&headers, "mcp-session-id") {
        lock(&endpoint.sessions).remove(session);
        let _ = endpoint.server.record(&json!({"deleted": session}));
    }
    StatusCode::NO_CONTENT.into_response()
}

impl Endpoint {
    async fn post(&self, headers: &HeaderMap, body: &[u8]) -> anyhow::Result<Response> {
        let http = &self.server.scenario.http;
        if http.legacy {
            return Ok(StatusCode::NOT_FOUND.into_response());
        }
        if let Some(status) = http.status {
            return Ok((StatusCode::from_u16(status)?, "no").into_response());
        }
        if http.authorization.is_some()
            && text(headers, "authorization") != http.authorization.as_deref()
        {
            let challenge = http
                .challenge
                .clone()
                .unwrap_or_else(|| "Bearer".to_owned());
            return Ok((
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, challenge)],
            )
                .into_response());
        }
        let message: Value = serde_json::from_slice(body)?;
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let mut session = None;
        if let Some(lives) = http.session {
            if method == "initialize" {
                let id = format!("session-{}", lock(&self.sessions).len() + 1);
                lock(&self.sessions).insert(id.clone(), lives);
                session = Some(id);
            } else if !self.spend(text(headers, "mcp-session-id")) {
                return Ok(StatusCode::NOT_FOUND.into_response());
            }
        }
        let names = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().into()));
        self.server
            .record(&json!({"headers": names.collect::<serde_json::Map<String, Value>>()}))?;
        self.server.record(&message)?;
        let is_request = message.get("id").is_some() && message.get("method").is_some();
        let (output, mut queue) = mpsc::unbounded_channel();
        let work = tokio::spawn(Arc::clone(&self.server).handle(message, output));
        if !is_request {
            work.await??;
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        if http.interrupt && method != "initialize" {
            let event = format!("event-{}", lock(&self.kept).len());
            lock(&self.kept).insert(event.clone(), queue);
            let start = format!("id: {event}\nretry: 10\ndata:\n\n");
            return Ok(([(header::CONTENT_TYPE, "text/event-stream")], start).into_response());
        }
        if http.sse {
            return Ok(events(queue, session));
        }
        let answer = queue.recv().await.unwrap_or_default();
        let mut response = ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
        if let Some(session) = session {
            response
                .headers_mut()
                .insert("mcp-session-id", session.parse()?);
        }
        Ok(response)
    }

    fn spend(&self, session: Option<&str>) -> bool {
        let mut sessions = lock(&self.sessions);
        let Some(left) = session.and_then(|session| sessions.get_mut(session)) else {
            return false;
        };
        *left = left.saturating_sub(1);
        *left > 0
    }
}

/// Sends each message as an event, until the work is done.
fn events(queue: mpsc::UnboundedReceiver<Vec<u8>>, session: Option<String>) -> Response {
    let events = futures_util::stream::unfold(queue, |mut queue| async move {
        let message = queue.recv().await?;
        let event = [b"data: ".as_slice(), message.trim_ascii_end(), b"\n\n"].concat();
        Some((Ok::<_, Infallible>(event), queue))
    });
    let mut response = Response::new(Body::from_stream(events.boxed()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/event-stream"),
    );
    if let Some(session) = session.and_then(|session| session.parse().ok()) {
        response.headers_mut().insert("mcp-session-id", session);
    }
    response
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
