//! HTTP requests whose results stay as the server wrote them.
//!
//! rmcp decodes results into its own types, which lose unknown fields and the form of numbers. So a result is handed
//! through rmcp in a wrapper that it cannot take for any of its types, and unwrapped on the other side.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ClientResult, CustomRequest, CustomResult, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::Value;
use serde_json::value::RawValue;
use sse_stream::{Sse, SseStream};

use super::body::{self, bounded_events, read};
use super::{Error, Object};
use crate::upstream::message::{Envelope, Outgoing, code, start_of};
use crate::upstream::payload::{Payload, one_line};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// What is said in place of an answer that is too large.
pub(super) const TOO_LARGE: &str = "io.mcp-code-bridge/too-large";
/// The key of the wrapper.
const RAW: &str = "io.mcp-code-bridge/raw";
/// Arguments of more values are refused.
const MOST_VALUES: usize = 1_000_000;
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

/// What rmcp made of a result, back as the server wrote it.
pub(super) fn result(result: ServerResult) -> Payload {
    let value = match result {
        ServerResult::CustomResult(CustomResult(value)) => value,
        other => return Payload::of(&other),
    };
    match value
        .get(RAW)
        .and_then(Value::as_str)
        .map(|text| RawValue::from_string(text.to_owned()))
    {
        Some(Ok(text)) => Payload::new(text),
        _ => Payload::of(&value),
    }
}

/// Our message as rmcp's. Only what rmcp itself has to understand is decoded: by way of text, since its types cannot be
/// made from a [`Value`] with a number of more than 64 bits.
pub(super) fn message(message: Outgoing) -> Result<ClientJsonRpcMessage, String> {
    match message {
        Outgoing::Request { id, method, params }
            if !matches!(method, "initialize" | "server/discover" | "tools/list") =>
        {
            let mut fields = params.fields;
            if let Some((key, payload)) = params.payload {
                if has_too_many_values(payload.get()) {
                    return Err(format!("its {key} have more than {MOST_VALUES} values"));
                }
                fields.insert(key.to_owned(), payload.value());
            }
            let request = CustomRequest::new(method, Some(Value::Object(fields)));
            let id = RequestId::Number(i64::try_from(id).unwrap_or(i64::MAX));
            Ok(ClientJsonRpcMessage::request(
                ClientRequest::CustomRequest(request),
                id,
            ))
        }
        Outgoing::Answer {
            id,
            answer: Ok(result),
        } => {
            let result = ClientResult::CustomResult(CustomResult(result));
            let id = serde_json::from_value(id).map_err(|error| error.to_string())?;
            Ok(ClientJsonRpcMessage::response(result, id))
        }
        message => serde_json::from_str(&message.into_text()).map_err(|error| error.to_string()),
    }
}

/// rmcp wants values, and each takes much more memory than its text may.
fn has_too_many_values(text: &str) -> bool {
    text.len() > MOST_VALUES
        && memchr::memchr2_iter(b',', b'[', text.as_bytes()).count() > MOST_VALUES
}

/// rmcp itself reads these results: to agree on a version, and to know which arguments go into headers.
fn is_read_by_rmcp(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else {
        return false;
    };
    matches!(
        request.request,
        ClientRequest::InitializeRequest(_)
            | ClientRequest::DiscoverRequest(_)
            | ClientRequest::ListToolsRequest(_)
    )
}

/// The wrapper of a result.
fn wrapped(result: &RawValue) -> Value {
    Value::Object(Object::from_iter([(
        RAW.to_owned(),
        one_line(result.get()).into(),
    )]))
}

/// An event with a result, its result wrapped; other events as they are.
fn wrap(text: &str) -> Option<String> {
    let Envelope {
        id,
        method: None,
        result: Some(result),
        error: None,
        ..
    } = serde_json::from_str(text).ok()?
    else {
        return None;
    };
    let id = id.map_or("null", RawValue::get);
    Some(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#,
        wrapped(result)
    ))
}

fn wrap_events(
    events: impl Stream<Item = Result<Sse, SseError>> + Send + 'static,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let wrap_event = |mut event: Sse| {
        if let Some(message) = event.data.as_deref().and_then(wrap) {
            event.data = Some(message);
        }
        event
    };
    events.map_ok(wrap_event).boxed()
}

fn wrap_answers(
    events: impl Stream<Item = Result<Sse, SseError>> + Send + 'static,
    message: &ClientJsonRpcMessage,
) -> BoxStream<'static, Result<Sse, SseError>> {
    if is_read_by_rmcp(message) {
        events.boxed()
    } else {
        wrap_events(events)
    }
}

/// An answer that is larger than allowed becomes one that says so: of a stream that just ends nobody would know why.
fn own_up(
    events: BoxStream<'static, Result<Sse, SseError>>,
    id: &RequestId,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let id = serde_json::to_string(id).unwrap_or_default();
    let owned = events.map(move |event| match event {
        Err(error) if body::is_too_large(&error) => {
            let code = code::INTERNAL;
            let data = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{TOO_LARGE}"}}}}"#
            );
            Ok(Sse::default().data(data))
        }
        event => event,
    });
    owned.boxed()
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
                    own_up(wrap_answers(events, &message), &request.id)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_pass_through_rmcp_unchanged() {
        for text in [
            r#"{"content":[{"text":"a","x-own":1,"type":"text","annotations":{"priority":0.1}}],"n":1e400}"#,
            r#"{"contents":[],"messages":[]}"#,
            "{}",
            r#"{"tools":5,"resultType":"complete"}"#,
            "null",
            r#""text""#,
        ] {
            let event = wrap(&format!(r#"{{"id":1,"result":{text}}}"#)).unwrap();
            let message: ServerJsonRpcMessage = serde_json::from_str(&event).unwrap();
            let JsonRpcMessage::Response(response) = message else {
                panic!("{text}")
            };
            assert_eq!(result(response.result).get(), text);
        }
    }
}
