//! Parameters of requests as the guest sends them, and objects as it is answered.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{GuestError, Kind};

/// Which docs a `query_tool_docs` request wants.
#[derive(Debug, Deserialize)]
pub(super) struct DocsQuery {
    pub(super) server: String,
    pub(super) tool: Option<String>,
    pub(super) detail: Option<String>,
}

/// What a `search_tool_docs` request looks for.
#[derive(Debug, Deserialize)]
pub(super) struct Search {
    pub(super) query: String,
    pub(super) limit: Option<usize>,
    pub(super) detail: Option<String>,
}

/// Parameters of the right types; the error names what is wrong with them.
pub(super) fn fields<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, GuestError> {
    serde_json::from_value(params)
        .map_err(|error| GuestError::new(Kind::Type, format!("{method}: {error}")))
}

/// An object of those entries that are not null.
pub(super) fn object(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let entries = entries.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(
        entries
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}
