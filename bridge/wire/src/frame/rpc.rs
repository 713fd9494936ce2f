//! `rpc_response`: the answer to one request of a guest.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::Value;

/// The answer to the request `call`: a payload, or the exception that user code gets instead.
#[derive(Debug)]
pub struct RpcResponse<'a, P> {
    /// The number that the guest gave its request.
    pub call: u64,
    /// The payload as the guest's runtime expects it for the method, or the exception to raise.
    pub result: Result<&'a P, RpcError<'a>>,
}

/// An exception for the guest's runtime to raise in user code.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct RpcError<'a> {
    /// Name of the exception class, such as `ToolError`.
    #[serde(rename = "type")]
    pub class: &'a str,
    /// Text of the exception.
    pub message: &'a str,
    /// Server that the request was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<&'a str>,
    /// Tool that the request was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<&'a str>,
    /// Further facts for code that looks at the exception's `details`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<&'a Value>,
}

impl<'a> RpcError<'a> {
    /// An exception that is about neither a server nor a tool.
    pub fn new(class: &'a str, message: &'a str) -> Self {
        Self {
            class,
            message,
            server: None,
            tool: None,
            details: None,
        }
    }
}

impl RpcResponse<'_, ()> {
    /// The refusal of a request; no payload type is involved.
    pub fn refusal<'a>(call: u64, class: &'a str, message: &'a str) -> RpcResponse<'a, ()> {
        RpcResponse {
            call,
            result: Err(RpcError::new(class, message)),
        }
    }
}

impl<P: Serialize> Serialize for RpcResponse<'_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut frame = serializer.serialize_struct("RpcResponse", 4)?;
        frame.serialize_field("type", "rpc_response")?;
        frame.serialize_field("call", &self.call)?;
        frame.serialize_field("success", &self.result.is_ok())?;
        match &self.result {
            Ok(payload) => frame.serialize_field("payload", payload)?,
            Err(error) => frame.serialize_field("error", error)?,
        }
        frame.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn responses_have_the_shape_of_the_contract() {
        let payload = json!({"content": []});
        let response = RpcResponse {
            call: 7,
            result: Ok(&payload),
        };
        assert_eq!(
            serde_json::to_string(&response).unwrap(),
            r#"{"type":"rpc_response","call":7,"success":true,"payload":{"content":[]}}"#
        );
        let details = json!({"reason": "r"});
        let response = RpcResponse::<()> {
            call: 7,
            result: Err(RpcError {
                server: Some("s"),
                tool: Some("t"),
                details: Some(&details),
                ..RpcError::new("NameError", "no")
            }),
        };
        assert_eq!(
            serde_json::to_string(&response).unwrap(),
            r#"{"type":"rpc_response","call":7,"success":false,"error":{"type":"NameError","message":"no","server":"s","tool":"t","details":{"reason":"r"}}}"#
        );
        assert_eq!(
            serde_json::to_string(&RpcResponse::refusal(7, "MCPError", "no")).unwrap(),
            r#"{"type":"rpc_response","call":7,"success":false,"error":{"type":"MCPError","message":"no"}}"#
        );
    }
}
