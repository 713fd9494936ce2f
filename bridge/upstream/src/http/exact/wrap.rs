//! The wrapper: how a result passes through rmcp as the server wrote it, and what of ours rmcp has to understand.

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ClientResult, CustomRequest, CustomResult, JsonRpcMessage,
    RequestId, ServerResult,
};
use rmcp::transport::streamable_http_client::SseError;
use serde_json::Value;
use serde_json::value::RawValue;
use sse_stream::Sse;

use crate::http::{Object, body};
use crate::message::{Envelope, Outgoing, code};
use crate::payload::{Payload, one_line};

/// What is said in place of an answer that is too large.
pub(in crate::http) const TOO_LARGE: &str = "io.mcp-code-bridge/too-large";
/// The key of the wrapper.
const RAW: &str = "io.mcp-code-bridge/raw";
/// Arguments of more values are refused.
const MOST_VALUES: usize = 1_000_000;

/// What rmcp made of a result, back as the server wrote it.
pub(in crate::http) fn result(result: ServerResult) -> Payload {
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
pub(in crate::http) fn message(message: Outgoing) -> Result<ClientJsonRpcMessage, String> {
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
pub(super) fn is_read_by_rmcp(message: &ClientJsonRpcMessage) -> bool {
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
pub(super) fn wrapped(result: &RawValue) -> Value {
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

pub(super) fn wrap_events(
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

pub(super) fn wrap_answers(
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
pub(super) fn oversized_as_error(
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

#[cfg(test)]
mod tests {
    use rmcp::model::ServerJsonRpcMessage;

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
