//! What a response over HTTP means: an answer, a stream of events, a lost session, or a failure.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use reqwest::Response;
use rmcp::transport::auth::WWWAuthenticateParams;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::events;
use crate::failure::{Failure, TransportError};
use crate::message::{Envelope, Incoming, Outcome, RpcError, code, our_id, start_of};
use crate::payload::LARGE;
use crate::transport::inbox::Inbox;

/// Enough of an error page to recognise it by.
const ERROR_BYTES: usize = 64 * 1024;

/// What a message was answered with.
pub(super) enum Reply {
    /// The server has taken the message; an answer comes on another stream, if one is due.
    Accepted,
    /// Messages, the answer among them, and the room that was claimed for a large one.
    Messages(Vec<Incoming>, Option<OwnedSemaphorePermit>),
    /// A stream of events, the answer among them.
    Events(Response),
    /// The server does not know the session, and did nothing.
    SessionLost,
    /// The server refused the message, maybe because it does not know the session.
    SessionDoubted(Failure),
}

/// Reads the response to a message: to the request with this id, or to what has no answer.
pub(super) async fn read(
    response: Response,
    inbox: &Inbox,
    request: Option<u64>,
    has_session: bool,
) -> Result<Reply, Failure> {
    let status = response.status();
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(Reply::Accepted);
    }
    if has_session && matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return Ok(Reply::SessionLost);
    }
    let kind = media_type(&response);
    if status.is_success() {
        let Some(id) = request else {
            return Ok(Reply::Accepted);
        };
        if kind.starts_with(events::MEDIA_TYPE) {
            return Ok(Reply::Events(response));
        }
        return read_answer(response, inbox, id, &kind, has_session).await;
    }
    let overload = status_error(&response);
    let (body, _) = body(response, ERROR_BYTES, false, inbox).await?;
    let rejection = error_in(&body);
    let is_lost = |rejection: &Rejection| rejection.error.code == code::UNKNOWN_SESSION;
    if has_session && rejection.as_ref().is_some_and(is_lost) {
        return Ok(Reply::SessionLost);
    }
    // The specification wants 404 for a lost session; many servers answer 400, without naming the
    // request: they did not look at it.
    let names_it = |rejection: &Rejection| request.is_some() && rejection.request == request;
    let is_doubted = has_session
        && status == StatusCode::BAD_REQUEST
        && !rejection.as_ref().is_some_and(names_it);
    let failure = match rejection {
        Some(rejection) => Failure::Rpc(rejection.error),
        None if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            overload.into()
        }
        None => not_a_message(status, kind, &body).into(),
    };
    if is_doubted {
        Ok(Reply::SessionDoubted(failure))
    } else {
        Err(failure)
    }
}

/// The messages in a body of JSON, which has to hold the answer.
async fn read_answer(
    response: Response,
    inbox: &Inbox,
    id: u64,
    kind: &str,
    has_session: bool,
) -> Result<Reply, Failure> {
    let status = response.status();
    let is_json = kind.starts_with("application/json");
    let limit = if is_json {
        inbox.message_bytes()
    } else {
        ERROR_BYTES
    };
    let (body, room) = body(response, limit, is_json, inbox).await?;
    let start = body.trim_ascii_start();
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    if !start.starts_with(b"{") && !start.starts_with(b"[") {
        return Err(not_a_message(status, kind.to_owned(), &body).into());
    }
    if has_session
        && body.len() <= ERROR_BYTES
        && let Some(rejection) = error_in(&body)
        && rejection.error.code == code::UNKNOWN_SESSION
    {
        // The same code also stands for a tool that took too long.
        return Ok(Reply::SessionDoubted(Failure::Rpc(rejection.error)));
    }
    let shown = start_of(&String::from_utf8_lossy(
        &start[..start.len().min(ERROR_BYTES)],
    ));
    let messages = read_messages(body.into(), inbox, Some(id)).await;
    if is_among(&messages, id) {
        Ok(Reply::Messages(messages, room))
    } else {
        inbox.deliver(messages, None);
        Err(Failure::Malformed(shown))
    }
}

/// The messages in a text that the server sent in answer to a request, or on the stream of none.
/// What it asks meanwhile belongs to that request, and so does an answer that names none.
pub(super) async fn read_messages(
    text: Bytes,
    inbox: &Inbox,
    request: Option<u64>,
) -> Vec<Incoming> {
    let mut messages = inbox.read(text).await;
    for message in &mut messages {
        match message {
            Incoming::Request { origin, .. } => *origin = request,
            Incoming::Response { id: id @ None, .. } => *id = request,
            Incoming::Response {
                outcome: Outcome::Result(result),
                ..
            } => result.join_lines(),
            _ => {}
        }
    }
    messages
}

/// Whether the answer to the request `wanted` is among `messages`.
pub(super) fn is_among(messages: &[Incoming], wanted: u64) -> bool {
    messages
        .iter()
        .any(|message| matches!(message, Incoming::Response { id: Some(id), .. } if *id == wanted))
}

/// The body of a response; over the limit an error where it has to be whole, else its beginning.
async fn body(
    mut response: Response,
    limit: usize,
    whole: bool,
    inbox: &Inbox,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Failure> {
    let mut body = Vec::new();
    let mut room = None;
    while let Some(chunk) = response.chunk().await.map_err(TransportError::from)? {
        let rest = limit - body.len();
        if chunk.len() > rest {
            if whole {
                let bytes = limit as u64;
                return Err(Failure::TooLarge { bytes });
            }
            body.extend_from_slice(&chunk[..rest]);
            break;
        }
        body.extend_from_slice(&chunk);
        if body.len() > LARGE && room.is_none() {
            room = inbox.room().await;
        }
    }
    Ok((body, room))
}

/// An error of the server, and the request of ours that it names.
struct Rejection {
    error: RpcError,
    request: Option<u64>,
}

/// The JSON-RPC error that a body consists of.
fn error_in(body: &[u8]) -> Option<Rejection> {
    let text = std::str::from_utf8(body).ok()?;
    let text = text.trim_start_matches('\u{feff}').trim();
    let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
    let error = envelope.error.map(RawValue::get)?;
    error.starts_with('{').then(|| Rejection {
        error: RpcError::read(error),
        request: envelope
            .id
            .and_then(|id| our_id(&serde_json::from_str(id.get()).ok()?)),
    })
}

/// Whether the body of a response says that the server does not know the session.
pub(super) async fn is_unknown_session(mut response: Response) -> bool {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > ERROR_BYTES {
            return false;
        }
    }
    error_in(&body).is_some_and(|rejection| rejection.error.code == code::UNKNOWN_SESSION)
}

/// Whether the response to a ping shows that the server does not know the session.
pub(super) async fn refuses_ping(response: Response) -> bool {
    match response.status() {
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE => true,
        status if status.is_success() => {
            !media_type(&response).starts_with(events::MEDIA_TYPE)
                && is_unknown_session(response).await
        }
        _ => false,
    }
}

/// Where the server is overloaded or broken, and when it wants to be asked again.
pub(super) fn status_error(response: &Response) -> TransportError {
    TransportError::Status {
        status: response.status().as_u16(),
        retry_after: text(response, &RETRY_AFTER).map(|after| start_of(&after)),
    }
}

fn not_a_message(status: StatusCode, kind: String, body: &[u8]) -> TransportError {
    let body = String::from_utf8_lossy(body);
    match body.trim() {
        _ if status.is_redirection() => TransportError::Redirected(status),
        "" => TransportError::Empty(status),
        body => TransportError::NotAMessage {
            status,
            kind,
            start: start_of(body),
        },
    }
}

/// The media type of a response, in lower case; empty where it has none.
pub(super) fn media_type(response: &Response) -> String {
    text(response, &CONTENT_TYPE)
        .unwrap_or_default()
        .to_ascii_lowercase()
}

/// The scope that a challenge asks for.
pub(super) fn scope(challenge: &str, url: &reqwest::Url) -> Option<String> {
    WWWAuthenticateParams::parse(challenge, url).scope
}

fn text(response: &Response, name: &HeaderName) -> Option<String> {
    response
        .headers()
        .get(name)
        .and_then(|value: &HeaderValue| value.to_str().ok())
        .map(str::to_owned)
}
