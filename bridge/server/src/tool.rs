//! The definition of `run_python`. The model pays for it in every conversation, so `tools/list`
//! must stay within 200 tokens.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde_json::json;

pub(super) const NAME: &str = "run_python";

const DESCRIPTION: &str = "Run Python 3.14 in a sandbox without network. Variables, imports, files persist between calls; top-level await works. Answers with output and the last expression. MCP servers named in `servers` become modules: await mcp_<server>.<tool>(...); await search_tool_docs(\"...\") finds tools.";

/// The definition of `run_python` as `tools/list` gives it.
pub fn definition() -> Tool {
    Tool::new(NAME, DESCRIPTION, Arc::new(schema()))
        .with_raw_output_schema(Arc::new(output_schema()))
}

/// The schema of answers: each has structured content with a `status`. More would not be worth its
/// tokens: the type of that field costs 9, all fields over 100.
fn output_schema() -> JsonObject {
    JsonObject::from_iter([
        ("type".to_owned(), "object".into()),
        ("required".to_owned(), json!(["status"])),
    ])
}

/// The schema of arguments. It is written by hand, as a generated one spends tokens on titles,
/// formats and nullability. `code` is not required because `run` can stand alone; not every client
/// supports the schema keywords that would require one of the two.
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
            "run": {"type": "string", "description": "run to wait for, without code"},
            "cancel": {"type": "boolean"},
            "max_output_tokens": {"type": "integer"},
        },
    });
    match schema {
        serde_json::Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}
