//! What user code keeps: memories and saved tools, whatever servers the session may use.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::context::ActiveRun;
use super::params::{fields, object};
use super::{GuestError, Kind};
use bridge_store::{self as store, Change, Expected, Loaded, Origin, Store};
use bridge_upstream::Payload;

/// A request to the store.
#[derive(Debug)]
pub(super) enum StateRequest {
    Load(String),
    Info(String),
    Save { key: String, change: Box<Change> },
    Delete(String),
    List,
    SaveTool { name: String, source: String },
    DeleteTool(String),
    ListTools,
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

#[derive(Deserialize)]
struct Save {
    key: String,
    #[serde(default)]
    metadata: Option<Value>,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    source: String,
}

impl StateRequest {
    /// Reads a request to the store; `None` where the method belongs to something else.
    pub(super) fn read(method: &str, params: &mut Value) -> Option<Result<Self, GuestError>> {
        let known = method.starts_with("memory.") || method.starts_with("tools.");
        known.then(|| Self::read_known(method, params))
    }

    fn read_known(method: &str, params: &mut Value) -> Result<Self, GuestError> {
        let taken = |params: &mut Value, name: &str| {
            params
                .as_object_mut()
                .and_then(|all| all.shift_remove(name))
        };
        match method {
            "memory.load" => Ok(Self::Load(fields::<Key>(method, params.take())?.key)),
            "memory.delete" => Ok(Self::Delete(fields::<Key>(method, params.take())?.key)),
            "memory.info" => Ok(Self::Info(fields::<Key>(method, params.take())?.key)),
            "memory.list" => Ok(Self::List),
            "memory.save" => {
                // Taken out first: they may be anything, and `null` is not the same as nothing.
                let value = taken(params, "value").unwrap_or_default();
                let expected = match taken(params, "expected") {
                    None => Expected::Any,
                    Some(Value::Null) => Expected::Nothing,
                    Some(Value::String(version)) => Expected::Version(version),
                    Some(_) => {
                        return Err(GuestError::new(
                            Kind::Type,
                            "memory.save: expected must be a version or null",
                        ));
                    }
                };
                let Save { key, metadata } = fields(method, params.take())?;
                let change = Change {
                    value,
                    metadata,
                    expected,
                };
                Ok(Self::Save {
                    key,
                    change: Box::new(change),
                })
            }
            "tools.save" => {
                let Tool { name, source } = fields(method, params.take())?;
                Ok(Self::SaveTool { name, source })
            }
            "tools.delete" => Ok(Self::DeleteTool(
                fields::<Name>(method, params.take())?.name,
            )),
            "tools.list" => Ok(Self::ListTools),
            other => {
                let shown: String = other.chars().take(40).collect();
                Err(GuestError::new(
                    Kind::Type,
                    format!("unknown method {shown:?}"),
                ))
            }
        }
    }

    /// Whether the request changes what is kept.
    pub(super) fn writes(&self) -> bool {
        !matches!(
            self,
            Self::Load(_) | Self::Info(_) | Self::List | Self::ListTools
        )
    }

    fn answer(self, store: &Store, origin: &Origin) -> Result<Payload, store::Error> {
        let memory = store.memory();
        let tools = store.tools();
        let value = match self {
            Self::Load(key) => return Ok(optional(memory.load(&key)?, true)),
            Self::Info(key) => return Ok(optional(memory.load(&key)?, false)),
            Self::Save { key, change } => {
                let saved = memory.save(&key, &change, origin)?;
                json!({"version": saved.version, "new": saved.new, "file": saved.file, "text": saved.text})
            }
            Self::Delete(key) => json!({"file": memory.delete(&key)?}),
            Self::List => return Ok(Payload::of(&memory.list()?)),
            Self::SaveTool { name, source } => {
                json!({"version": tools.save(&name, &source, origin)?})
            }
            Self::DeleteTool(name) => json!({"deleted": tools.delete(&name)?}),
            Self::ListTools => {
                let (tools, problems) = tools.list()?;
                json!({"tools": tools, "problems": problems})
            }
        };
        Ok(Payload::of(&value))
    }
}

/// A memory as the guest gets it, or null.
fn optional(loaded: Option<Loaded>, with_value: bool) -> Payload {
    let null = || Payload::of(&Value::Null);
    loaded.map_or_else(null, |loaded| record(&loaded, with_value))
}

fn record(loaded: &Loaded, with_value: bool) -> Payload {
    #[derive(Serialize)]
    struct Record<'a> {
        key: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<&'a RawValue>,
        metadata: &'a Value,
        created_at: &'a Value,
        updated_at: &'a Value,
        provenance: &'a Value,
        version: &'a str,
    }

    let record = Record {
        key: &loaded.key,
        value: with_value.then_some(&*loaded.value),
        metadata: &loaded.metadata,
        created_at: &loaded.created_at,
        updated_at: &loaded.updated_at,
        provenance: &loaded.provenance,
        version: &loaded.version,
    };
    Payload::of(&record).one_line()
}

impl ActiveRun {
    /// Asks the store, on a thread that may block.
    pub(super) async fn state(&self, request: StateRequest) -> Result<Payload, GuestError> {
        let store = Arc::clone(&self.scope.broker.store);
        let origin = self.context.origin.clone();
        let answer = tokio::task::spawn_blocking(move || request.answer(&store, &origin)).await;
        match answer {
            Ok(answer) => Ok(answer?),
            Err(error) if error.is_panic() => {
                let message = "the store failed: an internal error of the bridge";
                Err(GuestError::new(Kind::Mcp, message).because("bug"))
            }
            Err(_) => {
                let message = "the bridge is shutting down";
                Err(GuestError::new(Kind::Mcp, message).because("shutting_down"))
            }
        }
    }
}

impl From<store::Error> for GuestError {
    fn from(error: store::Error) -> Self {
        use store::Error;

        let kind = match &error {
            Error::TooLarge { .. } | Error::Full { .. } | Error::TooMany { .. } => Kind::Permission,
            Error::EmptyKey | Error::LongKey { .. } | Error::BadTool { .. } => Kind::Type,
            Error::Busy => Kind::Timeout,
            _ => Kind::Mcp,
        };
        let refusal = Self::new(kind, error.to_string()).because(error.reason());
        match error {
            // The present value saves the guest another request.
            Error::Conflict { current, .. } => {
                let current = current.map(|current| record(&current, true).value());
                Self {
                    details: Box::new(object([
                        ("reason", "conflict".into()),
                        ("current", current.into()),
                    ])),
                    ..refusal
                }
            }
            _ => refusal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, mut params: Value) -> Result<StateRequest, GuestError> {
        StateRequest::read(method, &mut params).expect("a method of the store")
    }

    #[test]
    fn requests_are_checked_before_anything_is_done() {
        assert!(StateRequest::read("call_tool", &mut json!({})).is_none());
        let refused = |method: &str, params: Value| read(method, params).unwrap_err().message;
        assert_eq!(
            refused("memory.load", json!({})),
            "memory.load: missing field `key`"
        );
        assert_eq!(
            refused("memory.eat", json!({})),
            "unknown method \"memory.eat\""
        );
        assert_eq!(
            refused("memory.save", json!({"key": "k", "expected": 5})),
            "memory.save: expected must be a version or null"
        );
        let expected = |params: Value| match read("memory.save", params) {
            Ok(StateRequest::Save { change, .. }) => change.expected,
            other => panic!("{other:?}"),
        };
        assert_eq!(expected(json!({"key": "k", "value": null})), Expected::Any);
        assert_eq!(
            expected(json!({"key": "k", "value": 1, "expected": null})),
            Expected::Nothing
        );
        assert_eq!(
            expected(json!({"key": "k", "value": 1, "expected": "ab"})),
            Expected::Version("ab".to_owned())
        );
    }
}
