//! What a server may want of the client while one of its tools runs: an answer of the user
//! (elicitation) or of the client's model (sampling), or to show progress and log lines.
//!
//! The bridge's own MCP server implements [`Interact`]. A server whose question cannot be asked is
//! told so at once instead of waiting.

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::RpcError;
use bridge_catalog::ServerName;

/// The client, as far as a server's call can reach it.
#[async_trait]
pub trait Interact: Send + Sync + 'static {
    /// The capabilities `elicitation` and `sampling` of the client, as servers started for it are
    /// told.
    fn offers(&self) -> Value {
        json!({})
    }

    /// Asks the client and waits as long as it takes; the caller stops waiting when the call ends.
    async fn request(&self, question: Question) -> Reply;

    /// Shows something to the client. Must not block.
    fn notify(&self, event: Event);
}

/// A question of a server.
#[derive(Debug, Clone)]
pub struct Question {
    /// The server that asks.
    pub server: ServerName,
    /// The tool whose call led to it, where that is known.
    pub tool: Option<String>,
    /// What kind of answer is wanted.
    pub kind: QuestionKind,
    /// Parameters of `elicitation/create` or `sampling/createMessage`, as the server sent them.
    pub params: Value,
    /// Fires when the answer has lost its use.
    pub cancel: CancellationToken,
}

/// What kind of answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// An answer of the user (`elicitation/create`).
    Elicitation,
    /// An answer of the client's model (`sampling/createMessage`).
    Sampling,
}

/// The ways in which a question can end.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The answer: for an elicitation its content (null where there is none, as in URL mode), for
    /// sampling the result.
    Accept(Value),
    /// The user said no.
    Decline,
    /// The user closed the question without an answer.
    Cancel,
    /// This client cannot be asked; why.
    Unsupported(String),
    /// The client answered with an error.
    Failed(RpcError),
}

/// Something that a server reports while it works.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The progress of a call (`notifications/progress`).
    Progress {
        /// The server that reports.
        server: ServerName,
        /// The tool at work.
        tool: String,
        /// The parameters as the server sent them, without the token.
        params: Value,
    },
    /// A log message (`notifications/message`).
    Log {
        /// The server that reports.
        server: ServerName,
        /// The parameters as the server sent them.
        params: Value,
    },
    /// The user has done what a page was opened for (`notifications/elicitation/complete`).
    ElicitationDone {
        /// The server that reports.
        server: ServerName,
        /// The `elicitationId` of the question.
        id: String,
    },
}

/// A client that cannot be asked and is told nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoClient;

#[async_trait]
impl Interact for NoClient {
    async fn request(&self, _: Question) -> Reply {
        Reply::Unsupported("no client is connected that could be asked".to_owned())
    }

    fn notify(&self, _: Event) {}
}

impl QuestionKind {
    /// The method of a question of this kind.
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
        }
    }

    pub(super) fn of_method(method: &str) -> Option<Self> {
        [Self::Elicitation, Self::Sampling]
            .into_iter()
            .find(|kind| kind.method() == method)
    }
}
