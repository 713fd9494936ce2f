//! Why a request has no result, as the exception that the guest raises.

use serde_json::{Value, json};

use bridge_catalog::ServerName;
use bridge_upstream::{self as upstream, RpcError};
use bridge_wire as wire;

/// Class of the exception that user code sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `ToolError`: the tool reported an error.
    Tool,
    /// `MCPError`: the server, or the connection to it, failed.
    Mcp,
    /// `NameError`: a name is unknown, or its server is not loaded.
    Name,
    /// `PermissionError`: it is not allowed.
    Permission,
    /// `TimeoutError`: it took too long.
    Timeout,
    /// `TypeError`: the request itself is wrong.
    Type,
}

/// A request that was refused or failed.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestError {
    /// Class of the exception.
    pub kind: Kind,
    /// Text of the exception.
    pub message: String,
    /// Server that the request was about.
    pub server: Option<String>,
    /// Tool that the request was about.
    pub tool: Option<String>,
    /// Further facts, for code that looks at them.
    pub details: Box<Value>,
}

impl Kind {
    /// The name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "ToolError",
            Self::Mcp => "MCPError",
            Self::Name => "NameError",
            Self::Permission => "PermissionError",
            Self::Timeout => "TimeoutError",
            Self::Type => "TypeError",
        }
    }
}

impl GuestError {
    pub(super) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            server: None,
            tool: None,
            details: Box::default(),
        }
    }

    pub(super) fn of_server(mut self, server: &ServerName) -> Self {
        self.server = Some(server.0.clone());
        self
    }

    pub(super) fn of_tool(mut self, tool: &str) -> Self {
        self.tool = Some(tool.to_owned());
        self
    }

    pub(super) fn because(mut self, reason: &str) -> Self {
        *self.details = json!({ "reason": reason });
        self
    }

    /// The error as the guest is told it.
    pub fn to_wire(&self) -> wire::RpcError<'_> {
        wire::RpcError {
            class: self.kind.name(),
            message: &self.message,
            server: self.server.as_deref(),
            tool: self.tool.as_deref(),
            details: (!self.details.is_null()).then_some(&*self.details),
        }
    }
}

impl From<upstream::Error> for GuestError {
    fn from(error: upstream::Error) -> Self {
        use upstream::Error;

        let (kind, reason) = match &error {
            Error::Rpc { .. } => (Kind::Tool, "error"),
            Error::TimedOut { .. } => (Kind::Timeout, "timeout"),
            Error::StillStarting { .. } => (Kind::Timeout, "still_starting"),
            Error::Cancelled { .. } => (Kind::Mcp, "cancelled"),
            Error::CannotAsk { .. } => (Kind::Tool, "cannot_ask"),
            Error::NotAnswered { .. } => (Kind::Tool, "not_answered"),
            Error::Start { .. } => (Kind::Mcp, "start"),
            Error::BackingOff { .. } => (Kind::Mcp, "back_off"),
            Error::Died { .. } => (Kind::Mcp, "died"),
            Error::TooLarge { .. } => (Kind::Mcp, "too_large"),
            Error::Malformed { .. } => (Kind::Mcp, "malformed"),
            Error::Transport { .. } => (Kind::Mcp, "transport"),
            Error::Unauthorized { .. } => (Kind::Mcp, "unauthorized"),
            Error::ShuttingDown { .. } => (Kind::Mcp, "shutting_down"),
        };
        let refusal = Self::new(kind, error.to_string())
            .of_server(error.server())
            .because(reason);
        match error {
            Error::Rpc { error, .. } => {
                let RpcError { code, data, .. } = *error;
                Self {
                    details: Box::new(json!({"reason": reason, "code": code, "data": data})),
                    ..refusal
                }
            }
            _ => refusal,
        }
    }
}
