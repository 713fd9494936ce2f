//! JSON-RPC messages as they are: values are decoded only as far as needed, so integers, key order
//! and unknown fields pass unchanged.
//!
//! Reading is lenient where real servers are sloppy (ids as text, a missing `jsonrpc`, batches) and
//! never guesses.

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::payload::Payload;

/// The most bytes of parameters that are read of a server's requests and notifications.
const PARAMS_BYTES: usize = 1024 * 1024;
/// The most bytes of an error whose `data` is read; of larger ones only code and message are.
const ERROR_BYTES: usize = 256 * 1024;
/// The most characters kept of an error's message.
const ERROR_TEXT: usize = 16 * 1024;

/// What a server sent.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The answer to a request of ours; without an id where the id cannot be one of ours.
    Response { id: Option<u64>, outcome: Outcome },
    /// A request of the server.
    Request {
        id: Value,
        method: String,
        params: Value,
        /// The request of ours that it belongs to, where the transport can tell.
        origin: Option<u64>,
    },
    /// A notification of the server.
    Notification { method: String, params: Value },
    /// Something that is not a message; what it began with.
    NonProtocol(String),
}

/// How a request ended, by the answer to it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The result of a request that worked.
    Result(Payload),
    /// The error of a request that did not work.
    Error(RpcError),
    /// The answer was larger than allowed and was not kept.
    TooLarge { bytes: u64 },
    /// The answer was not valid; what is wrong with it.
    Malformed(String),
}

/// An error object of JSON-RPC.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The code, by which programs tell errors apart.
    pub code: i64,
    /// The message for people and models.
    pub message: String,
    /// Whatever the server added; null where it added nothing.
    pub data: Value,
}

/// A message of ours to a server.
#[derive(Debug, Clone)]
pub(super) enum Outgoing {
    Request {
        id: u64,
        method: &'static str,
        params: Params,
    },
    Notification {
        method: &'static str,
        params: Map<String, Value>,
    },
    Response {
        id: Value,
        outcome: Result<Value, RpcError>,
    },
}

/// Parameters of a request: fields of ours, and one that passes through unread.
#[derive(Debug, Clone, Default)]
pub(super) struct Params {
    pub(super) fields: Map<String, Value>,
    pub(super) payload: Option<(&'static str, Payload)>,
}

impl Params {
    fn into_text(self) -> String {
        let mut text = Value::Object(self.fields).to_string();
        if let Some((key, payload)) = self.payload {
            let separator = if text == "{}" { "" } else { "," };
            text.pop();
            let _ = write!(text, "{separator}\"{key}\":{}}}", payload.get());
        }
        text
    }
}

impl From<Map<String, Value>> for Params {
    fn from(fields: Map<String, Value>) -> Self {
        Self {
            fields,
            payload: None,
        }
    }
}

/// Codes of JSON-RPC and MCP that are used here.
pub(super) mod code {
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INTERNAL: i64 = -32603;
    /// The server does not know the session.
    pub(crate) const UNKNOWN_SESSION: i64 = -32001;
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
    /// What the specification's examples use for "the user said no" to sampling.
    pub(crate) const USER_REJECTED: i64 = -1;
}

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: Value::Null,
        }
    }

    pub(super) fn read(text: &str) -> Self {
        if text.len() > ERROR_BYTES {
            #[derive(Deserialize)]
            struct Short<'a> {
                code: Option<i64>,
                #[serde(borrow)]
                message: Option<&'a RawValue>,
            }
            let short: Option<Short<'_>> = serde_json::from_str(text).ok();
            let message = short
                .as_ref()
                .and_then(|short| short.message)
                .map_or("an error too large to be read", RawValue::get);
            return Self::new(
                short.and_then(|short| short.code).unwrap_or(code::INTERNAL),
                cut(message, ERROR_TEXT),
            );
        }
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let Value::Object(error) = &value else {
            return Self::new(code::INTERNAL, cut(&text_of(&value), ERROR_TEXT));
        };
        Self {
            code: error
                .get("code")
                .and_then(integer)
                .unwrap_or(code::INTERNAL),
            message: match error.get("message") {
                Some(message) => cut(&text_of(message), ERROR_TEXT),
                None => "error without a message".to_owned(),
            },
            data: error.get("data").cloned().unwrap_or(Value::Null),
        }
    }

    fn write(self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.data.is_null() {
            error["data"] = self.data;
        }
        error
    }
}

impl Outgoing {
    /// The message as JSON text.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Request { id, method, params } => {
                let params = params.into_text();
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
            }
            Self::Notification { method, params } if params.is_empty() => {
                json!({"jsonrpc": "2.0", "method": method}).to_string()
            }
            Self::Notification { method, params } => {
                json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
            }
            Self::Response {
                id,
                outcome: Ok(result),
            } => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
            Self::Response {
                id,
                outcome: Err(error),
            } => json!({"jsonrpc": "2.0", "id": id, "error": error.write()}).to_string(),
        }
    }
}

/// The parts of a message, unread.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    /// A result of null counts as a result.
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) result: Option<&'a RawValue>,
    /// An error of null does not count: some servers send that beside a result.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) jsonrpc: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Incoming {
    /// Reads the messages in `text`: several in a batch, one otherwise.
    pub(super) fn read(text: &str, each: &mut dyn FnMut(Self)) -> Result<(), serde_json::Error> {
        match text.as_bytes().first() {
            Some(b'{') => each(Self::read_object(text)?),
            Some(b'[') => {
                let batch: Vec<&RawValue> = serde_json::from_str(text)?;
                if batch.is_empty() {
                    each(Self::NonProtocol(text.to_owned()));
                }
                for message in batch {
                    let message = message.get();
                    let object = message
                        .starts_with('{')
                        .then(|| Self::read_object(message))
                        .transpose()?;
                    each(object.unwrap_or_else(|| Self::NonProtocol(start_of(message))));
                }
            }
            _ => {
                serde_json::from_str::<serde::de::IgnoredAny>(text)?;
                each(Self::NonProtocol(start_of(text)));
            }
        }
        Ok(())
    }

    /// Reads the messages in a line that is not JSON: what a server has printed without a line end
    /// stands before or behind them.
    pub(super) fn salvage(line: &str, each: &mut dyn FnMut(Self)) {
        const TRIES: usize = 16;
        let mut rest = line;
        for _ in 0..TRIES {
            let Some(at) = rest.find('{') else { return };
            rest = &rest[at..];
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
            let object = values.next().and_then(Result::ok).map(RawValue::get);
            let is_message = |text: &&str| {
                serde_json::from_str::<Envelope<'_>>(text)
                    .is_ok_and(|envelope| envelope.jsonrpc.is_some())
            };
            match object.filter(is_message) {
                Some(text) => {
                    rest = &rest[text.len()..];
                    if let Ok(message) = Self::read_object(text) {
                        each(message);
                    }
                }
                None => rest = &rest[1..],
            }
        }
    }

    fn read_object(text: &str) -> Result<Self, serde_json::Error> {
        let Envelope {
            id,
            method,
            params,
            result,
            error,
            jsonrpc,
        } = serde_json::from_str(text)?;
        if let Some(method) =
            method.and_then(|method| serde_json::from_str::<String>(method.get()).ok())
        {
            let params = params.map_or("null", RawValue::get);
            // With a method that does not exist, a request is refused and a notification is
            // ignored.
            let (method, params) = if params.len() > PARAMS_BYTES {
                (
                    format!(
                        "{} with {} bytes of parameters",
                        start_of(&method),
                        params.len()
                    ),
                    "null",
                )
            } else {
                (method, params)
            };
            let params = serde_json::from_str(params)?;
            return Ok(match id {
                None => Self::Notification { method, params },
                Some(id) if id.get().len() <= PARAMS_BYTES => Self::Request {
                    id: serde_json::from_str(id.get())?,
                    method,
                    params,
                    origin: None,
                },
                Some(id) => Self::NonProtocol(start_of(id.get())),
            });
        }
        let id = id.and_then(|id| parse_id(id.get().trim_matches('"')));
        Ok(match (error, result) {
            (Some(error), _) => Self::Response {
                id,
                outcome: Outcome::Error(RpcError::read(error.get())),
            },
            (None, Some(result)) => Self::Response {
                id,
                outcome: Outcome::Result(Payload::new(result.to_owned())),
            },
            // The caller would wait for ever.
            (None, None) if id.is_some() && jsonrpc.is_some() => Self::Response {
                id,
                outcome: Outcome::Malformed("it has neither a result nor an error".to_owned()),
            },
            (None, None) => Self::NonProtocol(start_of(text)),
        })
    }
}

/// The id of a request of ours, as servers give it back: as an integer, as text, or as a float.
pub(super) fn our_id(id: &Value) -> Option<u64> {
    match id {
        Value::Number(number) => parse_id(number.as_str()),
        Value::String(text) => parse_id(text),
        _ => None,
    }
}

fn parse_id(text: &str) -> Option<u64> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// The first `most` characters of a text.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn integer(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    number.as_i64().or_else(|| {
        let text = number.to_string();
        text.strip_suffix(".0").and_then(|whole| whole.parse().ok())
    })
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The beginning of a text, enough to recognise it by.
pub(super) fn start_of(text: &str) -> String {
    cut(text, 120)
}

#[cfg(test)]
mod tests;
