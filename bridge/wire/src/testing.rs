//! The guest's half of requests, for tests of other crates: no other crate spells a frame.

use serde_json::{Value, json};

/// A request as a guest writes it; without `params` where they are `None`.
pub fn request(call: u64, method: &str, params: Option<Value>) -> Value {
    let mut frame = json!({"type": "rpc_request", "id": 1, "call": call, "method": method});
    if let Some(params) = params {
        frame["params"] = params;
    }
    frame
}

/// The refusal of a request as a guest reads it.
pub fn refusal(call: u64, class: &str, message: &str) -> Value {
    serde_json::to_value(crate::RpcResponse::refusal(call, class, message)).unwrap_or_default()
}

/// Whether a frame of the host is the answer to a request.
pub fn is_response(frame: &Value) -> bool {
    frame["type"] == "rpc_response"
}
