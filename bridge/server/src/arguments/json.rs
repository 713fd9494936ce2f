//! The JSON arguments of a tool call as typed ones. `null` is the same as absent.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;

use super::{Given, GivenArguments, MAX_SERVERS};

/// Reads the types, and leaves everything else to [`super::Arguments::check`].
pub(super) fn given(mut arguments: JsonObject) -> GivenArguments {
    let mut take = |name: &str| arguments.remove(name).filter(|value| !value.is_null());
    GivenArguments {
        code: typed(take("code"), text),
        servers: typed(take("servers"), array),
        timeout: typed(take("timeout"), whole_number),
        session: typed(take("session"), text),
        reset: typed(take("reset"), boolean),
        yield_after: typed(take("yield_after"), seconds),
        run: typed(take("run"), text),
        cancel: typed(take("cancel"), boolean),
        max_output_tokens: typed(take("max_output_tokens"), whole_number),
        unknown: arguments.into_iter().map(|(name, _)| name).collect(),
    }
}

/// `read` gives the value back where it is of another type.
fn typed<T>(value: Option<Value>, read: fn(Value) -> Result<T, Value>) -> Given<T> {
    match value.map(read) {
        None => Given::Absent,
        Some(Ok(value)) => Given::Value(value),
        Some(Err(value)) => Given::Malformed(show(&value)),
    }
}

fn text(value: Value) -> Result<String, Value> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(other),
    }
}

fn boolean(value: Value) -> Result<bool, Value> {
    value.as_bool().ok_or(value)
}

fn seconds(value: Value) -> Result<Duration, Value> {
    let number = match &value {
        Value::Number(number) => number.as_f64(),
        _ => None,
    };
    let time = number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or(value)
}

/// Not read further than to the first name that is one too many.
fn array(value: Value) -> Result<Vec<Result<String, String>>, Value> {
    match value {
        Value::Array(items) => Ok(items
            .into_iter()
            .take(MAX_SERVERS + 1)
            .map(|item| text(item).map_err(|item| show(&item)))
            .collect()),
        other => Err(other),
    }
}

/// JSON has one kind of number: `30.0` is a whole one, as in JSON Schema.
fn whole_number(value: Value) -> Result<u64, Value> {
    let Value::Number(number) = &value else {
        return Err(value);
    };
    let text = number.to_string();
    let is_zero = |fraction: &str| fraction.bytes().all(|byte| byte == b'0');
    let whole = match text.split_once('.') {
        None => text.as_str(),
        Some((whole, fraction)) if is_zero(fraction) => whole,
        Some(_) => return Err(value),
    };
    whole.parse().map_err(|_| value)
}

/// A value as JSON, cut where it is long.
fn show(value: &Value) -> String {
    match value {
        // Not written out, as it may be megabytes.
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => super::show(text),
        other => super::cut(other.to_string()),
    }
}
