//! JSON-RPC messages as they are: no value is decoded further than needed, so integers, key order and unknown fields
//! pass unchanged.
//!
//! Reading is lenient where real servers are sloppy (ids as text, a missing `jsonrpc`, batches) and never guesses.

use serde_json::{Map, Value, json};

/// What a server sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Incoming {
    /// The answer to a request of ours. Without an id that could be ours it belongs to nobody.
    Answer { id: Option<u64>, answer: Answer },
    /// It asks something of us.
    Request {
        id: Value,
        method: String,
        params: Value,
        /// Our request that it belongs to, where the transport can tell.
        origin: Option<u64>,
    },
    /// It tells something.
    Notification { method: String, params: Value },
    /// Something that is no message; what it began with.
    Junk(String),
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// It worked.
    Result(Value),
    /// It did not.
    Error(RpcError),
    /// It was larger than allowed and not kept.
    TooLarge { bytes: u64 },
    /// It was no JSON.
    Malformed(String),
}

/// An error object of JSON-RPC.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// Its text.
    pub message: String,
    /// Its `data`, or null.
    pub data: Value,
}

/// What we send.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outgoing {
    Request {
        id: u64,
        method: &'static str,
        params: Map<String, Value>,
    },
    Notification {
        method: &'static str,
        params: Map<String, Value>,
    },
    Answer {
        id: Value,
        answer: Result<Value, RpcError>,
    },
}

/// Codes of JSON-RPC and MCP that are used here.
pub(super) mod code {
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INTERNAL: i64 = -32603;
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

    fn read(value: &Value) -> Self {
        let Value::Object(error) = value else {
            return Self::new(code::INTERNAL, text_of(value));
        };
        Self {
            code: error
                .get("code")
                .and_then(integer)
                .unwrap_or(code::INTERNAL),
            message: match error.get("message") {
                Some(message) => text_of(message),
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
    /// The message as JSON.
    pub(super) fn into_json(self) -> Value {
        match self {
            Self::Request { id, method, params } => {
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            }
            Self::Notification { method, params } if params.is_empty() => {
                json!({"jsonrpc": "2.0", "method": method})
            }
            Self::Notification { method, params } => {
                json!({"jsonrpc": "2.0", "method": method, "params": params})
            }
            Self::Answer {
                id,
                answer: Ok(result),
            } => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Self::Answer {
                id,
                answer: Err(error),
            } => json!({"jsonrpc": "2.0", "id": id, "error": error.write()}),
        }
    }
}

impl Incoming {
    /// What `value` is. A batch is several messages.
    pub(super) fn read(value: Value, each: &mut dyn FnMut(Self)) {
        match value {
            Value::Object(object) => each(Self::read_object(object)),
            Value::Array(batch) if !batch.is_empty() => {
                for value in batch {
                    match value {
                        Value::Object(object) => each(Self::read_object(object)),
                        other => each(Self::Junk(start_of(&other.to_string()))),
                    }
                }
            }
            other => each(Self::Junk(start_of(&other.to_string()))),
        }
    }

    fn read_object(mut object: Map<String, Value>) -> Self {
        if let Some(Value::String(method)) = object.get_mut("method") {
            let method = std::mem::take(method);
            let params = object.remove("params").unwrap_or(Value::Null);
            return match object.remove("id") {
                None | Some(Value::Null) => Self::Notification { method, params },
                Some(id) => Self::Request {
                    id,
                    method,
                    params,
                    origin: None,
                },
            };
        }
        let id = object.get("id").and_then(our_id);
        // Some servers send `"error": null` beside a result.
        if let Some(error) = object.get("error").filter(|error| !error.is_null()) {
            return Self::Answer {
                id,
                answer: Answer::Error(RpcError::read(error)),
            };
        }
        match object.remove("result") {
            Some(result) => Self::Answer {
                id,
                answer: Answer::Result(result),
            },
            None => Self::Junk(start_of(&Value::Object(object).to_string())),
        }
    }
}

/// Ids of ours are integers; some servers give them back as text or as a float.
fn our_id(value: &Value) -> Option<u64> {
    match value {
        Value::Number(_) => integer(value).and_then(|id| u64::try_from(id).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
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

/// Enough of a text to recognise it by.
pub(super) fn start_of(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The id of an answer too large or too broken to be parsed, from its first and last bytes: SDKs write the id either
/// before or after the result.
pub(super) fn sniff_id(head: &[u8], tail: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(tail);
    // Before the first value that could itself hold an `"id"`.
    let outer = head
        .find("\"result\"")
        .or_else(|| head.find("\"error\""))
        .map_or("", |end| &head[..end]);
    let after = outer.rfind("\"id\"").map(|at| &outer[at + 4..]);
    let before = tail
        .rfind("\"id\"")
        .map(|at| &tail[at + 4..])
        .filter(|rest| rest.trim_end().ends_with('}'));
    let (text, must_end) = match (after, before) {
        (Some(text), _) => (text, false),
        (None, Some(text)) => (text, true),
        (None, None) => return None,
    };
    let text = text
        .trim_start()
        .strip_prefix(':')?
        .trim_start()
        .trim_start_matches('"');
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let rest = text[digits..].trim_start_matches('"').trim();
    // Behind the result the id is the last thing but the brace or the version.
    let last = rest == "}"
        || (rest.starts_with(',') && rest.contains("\"jsonrpc\"") && !rest[1..].contains('{'));
    if must_end && !last {
        return None;
    }
    text[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Incoming> {
        let mut messages = Vec::new();
        Incoming::read(serde_json::from_str(text).unwrap(), &mut |message| {
            messages.push(message);
        });
        messages
    }

    fn answer(id: u64, result: Value) -> Incoming {
        Incoming::Answer {
            id: Some(id),
            answer: Answer::Result(result),
        }
    }

    #[test]
    fn sloppy_ids_are_understood() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"id":"7","result":{}}"#,
            r#"{"id":7.0,"result":{},"error":null}"#,
        ] {
            assert_eq!(read(text), [answer(7, json!({}))], "{text}");
        }
        for text in [
            r#"{"id":-1,"result":1}"#,
            r#"{"id":null,"result":1}"#,
            r#"{"id":"x","result":1}"#,
            r#"{"result":1}"#,
        ] {
            assert_eq!(
                read(text),
                [Incoming::Answer {
                    id: None,
                    answer: Answer::Result(json!(1))
                }],
                "{text}"
            );
        }
    }

    #[test]
    fn a_batch_is_several_messages() {
        let messages = read(r#"[{"id":1,"result":1},5,{"method":"m","params":[1]}]"#);
        assert_eq!(
            messages,
            [
                answer(1, json!(1)),
                Incoming::Junk("5".to_owned()),
                Incoming::Notification {
                    method: "m".to_owned(),
                    params: json!([1])
                },
            ]
        );
    }

    #[test]
    fn errors_of_any_shape_keep_their_text() {
        let error = |text: &str| match read(text).remove(0) {
            Incoming::Answer {
                answer: Answer::Error(error),
                ..
            } => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            error(r#"{"id":1,"error":"no"}"#),
            RpcError::new(code::INTERNAL, "no")
        );
        assert_eq!(
            error(r#"{"id":1,"error":{"code":"x","message":["a"]}}"#).message,
            "[\"a\"]"
        );
        assert_eq!(
            error(r#"{"id":1,"error":{"code":-5,"message":"m","data":{"a":1}}}"#).data,
            json!({"a": 1})
        );
    }

    #[test]
    fn big_integers_and_key_order_survive() {
        let text = r#"{"id":1,"result":{"z":123456789012345678901234567890,"a":1.10,"m":1e+400}}"#;
        let Incoming::Answer {
            answer: Answer::Result(result),
            ..
        } = read(text).remove(0)
        else {
            panic!()
        };
        assert_eq!(
            result.to_string(),
            r#"{"z":123456789012345678901234567890,"a":1.10,"m":1e+400}"#
        );
    }

    #[test]
    fn ids_are_found_in_both_habits_and_never_inside_the_result() {
        let found = |text: &str| {
            sniff_id(
                &text.as_bytes()[..text.len().min(200)],
                &text.as_bytes()[text.len().saturating_sub(200)..],
            )
        };
        assert_eq!(
            found(r#"{"jsonrpc":"2.0","id":12,"result":{"x":"....."#),
            Some(12)
        );
        assert_eq!(
            found(r#"{"result":{"x":"..."},"jsonrpc":"2.0","id":12}"#),
            Some(12)
        );
        assert_eq!(
            found(r#"{"result":{"x":"..."},"id":"12","jsonrpc":"2.0"}"#),
            Some(12)
        );
        assert_eq!(found(r#"{"result":{"x":"...","id":99}}"#), None);
        assert_eq!(found(r#"{"result":{"id":99,"x":"..."#), None);
        assert_eq!(found("Starting..."), None);
    }
}
