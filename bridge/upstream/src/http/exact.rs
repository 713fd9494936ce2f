//! HTTP requests whose results stay as the server wrote them.
//!
//! rmcp decodes results into its own types, which lose unknown fields and the form of numbers. So a result is handed
//! through rmcp in a wrapper that it cannot take for any of its types, and unwrapped on the other side.

mod wrap;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, CustomResult, JsonRpcMessage, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::{Sse, SseStream};

use super::Error;
use super::body::{bounded_events, read};
use crate::message::{Envelope, start_of};
pub(super) use wrap::{TOO_LARGE, message, result};
use wrap::{is_read_by_rmcp, oversized_as_error, wrap_answers, wrap_events, wrapped};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// Enough of an error page to recognise it by.
const ERROR_BYTES: usize = 64 * 1024;

/// The client. Clones share their connections.
#[derive(Clone)]
pub(super) struct Exact(reqwest::Client);

/// A client that trusts the machine's certificates and does not carry credentials from one host to another.
pub(super) fn client() -> Result<reqwest::Client, String> {
    // The bridge has done so already; then this changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let same_host = reqwest::redirect::Policy::custom(|attempt| {
        let (from, to) = (attempt.previous().first(), attempt.url());
        if attempt.previous().len() < 5 && from.is_some_and(|from| from.origin() == to.origin()) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    reqwest::Client::builder()
        .user_agent(concat!("mcp-code-bridge/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        .redirect(same_host)
        .build()
        .map_err(|error| format!("no HTTP client: {}", super::chain(&error)))
}

impl Exact {
    pub(super) fn new(url: &str) -> Result<Self, String> {
        match reqwest::Url::parse(url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(Self(client()?)),
            Ok(url) => Err(format!(
                "its address has the scheme {}, not http or https",
                url.scheme()
            )),
            Err(error) => Err(format!("its address is none: {error}")),
        }
    }
}

impl StreamableHttpClient for Exact {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut request = self
            .0
            .post(uri.as_ref())
            .header(ACCEPT, format!("{EVENTS}, {JSON}"))
            .json(&message);
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        if let Some(session) = &session_id {
            request = request.header("mcp-session-id", session.as_ref());
        }
        let response = request.send().await?;
        let status = response.status();
        check_credentials(status, response.headers())?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = text(response.headers(), "mcp-session-id");
        let kind = text(response.headers(), CONTENT_TYPE.as_str())
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        if status.is_success() && kind.starts_with(EVENTS) {
            let events =
                SseStream::from_bytes_stream(bounded_events(response, limits.max_sse_event_size));
            let events = match &message {
                JsonRpcMessage::Request(request) => {
                    oversized_as_error(wrap_answers(events, &message), &request.id)
                }
                _ => events.boxed(),
            };
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let retry_after = text(response.headers(), RETRY_AFTER.as_str());
        let limit = if kind.starts_with(JSON) {
            limits.max_json_response_size
        } else {
            ERROR_BYTES
        };
        let body = read(response, limit, kind.starts_with(JSON)).await?;
        if !is_request && status.is_success() {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let text = String::from_utf8_lossy(&body);
        let text = text.trim_start_matches('\u{feff}').trim();
        let envelope: Option<Envelope<'_>> = Some(text)
            .filter(|text| text.starts_with('{'))
            .and_then(|text| serde_json::from_str(text).ok());
        match envelope {
            Some(envelope)
                if status.is_success()
                    || envelope
                        .error
                        .is_some_and(|error| error.get().starts_with('{')) =>
            {
                decode(text, &envelope, &message, status)
                    .map(|message| StreamableHttpPostResponse::Json(message, session))
            }
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(HttpStatusError::new(status.as_u16(), retry_after).into())
            }
            _ => Err(unexpected(status, &kind, &body)),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        self.0
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        self.0
            .get_stream(uri, session_id, last_event_id, auth_header, custom_headers)
            .await
            .map(wrap_events)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let (client, size) = (&self.0, max_sse_event_size);
        let events = client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                size,
            )
            .await?;
        Ok(wrap_events(events))
    }
}

fn check_credentials(status: StatusCode, headers: &HeaderMap) -> Result<(), Error> {
    let challenge = text(headers, WWW_AUTHENTICATE.as_str());
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, challenge) => Err(StreamableHttpError::AuthRequired(
            AuthRequiredError::new(challenge.unwrap_or_default()),
        )),
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let scope = challenge
                .split("scope=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
                .map(str::to_owned);
            Err(StreamableHttpError::InsufficientScope(
                InsufficientScopeError::new(challenge, scope),
            ))
        }
        _ => Ok(()),
    }
}

/// The one message in a body of JSON.
fn decode(
    text: &str,
    envelope: &Envelope<'_>,
    message: &ClientJsonRpcMessage,
    status: StatusCode,
) -> Result<ServerJsonRpcMessage, Error> {
    let id = match (envelope.id, message) {
        // An error that some gateway made up does not have our id.
        (_, JsonRpcMessage::Request(request)) if !status.is_success() => Some(request.id.clone()),
        (id, _) => id.and_then(|id| serde_json::from_str(id.get()).ok()),
    };
    if let Some(error) = envelope.error {
        let error = serde_json::from_str(error.get())?;
        return Ok(ServerJsonRpcMessage::error(error, id));
    }
    if !is_read_by_rmcp(message)
        && let (Some(result), Some(id)) = (envelope.result, id)
    {
        return Ok(ServerJsonRpcMessage::response(
            ServerResult::CustomResult(CustomResult(wrapped(result))),
            id,
        ));
    }
    serde_json::from_str(text).map_err(|error| {
        let shown = start_of(text);
        StreamableHttpError::UnexpectedServerResponse(
            format!("no JSON-RPC message ({error}): {shown}").into(),
        )
    })
}

fn unexpected(status: StatusCode, kind: &str, body: &[u8]) -> Error {
    let body = String::from_utf8_lossy(body);
    let what = match (status.is_redirection(), body.trim()) {
        (true, _) => format!(
            "HTTP {status}: it redirects to another host; put that address into its definition"
        ),
        (false, "") => format!("HTTP {status} without content"),
        (false, body) => format!("HTTP {status} ({kind}): {}", start_of(body)),
    };
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(what))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
}
