//! The definition of `run_python`. Every model pays for it in each conversation, so each word is weighed: `tools/list` stays
//! within 200 tokens.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde_json::json;

pub(super) const NAME: &str = "run_python";

const DESCRIPTION: &str = "Run Python 3.14 in a sandbox without network. Variables, imports, files persist between calls; top-level await works. Answers with output and the last expression. MCP servers named in `servers` become modules: await mcp_<server>.<tool>(...); await search_tool_docs(\"...\") finds tools.";

/// The tool, as listed.
pub fn definition() -> Tool {
    Tool::new(NAME, DESCRIPTION, Arc::new(schema())).with_raw_output_schema(Arc::new(answer()))
}

/// That there is structured content in each answer, and the one field that is always there. To say more costs more than it
/// is worth: with the type of that field 9 tokens, with all fields over 100.
fn answer() -> JsonObject {
    JsonObject::from_iter([
        ("type".to_owned(), "object".into()),
        ("required".to_owned(), json!(["status"])),
    ])
}

/// Written by hand: a generated schema spends tokens on titles, formats and nullability. `code` is not among the required ones
/// because of `run`; that one of them must be there cannot be said in words that every client takes.
fn schema() -> JsonObject {
    let schema = json!({
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "servers": {"type": "array", "items": {"type": "string"}},
            "timeout": {"type": "integer", "description": "seconds"},
            "session": {"type": "string", "description": "name for separate variables"},
            "reset": {"type": "boolean", "description": "start afresh"},
            "yield_after": {"type": "number", "description": "seconds until it answers and runs on"},
            "run": {"type": "string", "description": "id to wait for, without code"},
            "cancel": {"type": "boolean"},
            "max_output_tokens": {"type": "integer"},
        },
    });
    match schema {
        serde_json::Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}
