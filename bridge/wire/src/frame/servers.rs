//! What an `execute` frame tells a guest about a server, so that the guest can make proxies for its
//! tools.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One server and its tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerCard<'a> {
    /// Name in its definition.
    pub name: &'a str,
    /// Name in Python, without the `mcp_` before it.
    pub alias: &'a str,
    /// What the server is for, where its definition says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    /// Tools in the order in which the server lists them.
    pub tools: Vec<ToolCard<'a>>,
}

/// One tool of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolCard<'a> {
    /// Name in the server's own list.
    pub name: &'a str,
    /// Name of the tool in Python.
    pub alias: &'a str,
    /// What the tool does, where the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    /// JSON Schema of the arguments.
    pub input_schema: &'a Value,
    /// JSON Schema of the structured result, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<&'a Value>,
}

/// A [`ServerCard`] as it goes into a frame; encoded once, because its size decides whether it
/// fits.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct EncodedCard(Box<RawValue>);

impl EncodedCard {
    /// Size of the card in bytes.
    pub fn size(&self) -> usize {
        self.0.get().len()
    }
}

impl PartialEq for EncodedCard {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for EncodedCard {}

impl ServerCard<'_> {
    /// The card as JSON text.
    pub fn encode(&self) -> EncodedCard {
        // Strings and JSON values can always be written; `null` is what a guest would skip.
        let text = serde_json::value::to_raw_value(self);
        EncodedCard(text.unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}
