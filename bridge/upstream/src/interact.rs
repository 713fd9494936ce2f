//! What a server may want of the client while one of its tools runs: an answer of the user (elicitation), of the
//! client's model (sampling), or to show progress and log lines.
//!
//! The MCP face implements [`Interact`]; where it cannot ask, the server is told so at once instead of waiting.

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::RpcError;
use bridge_catalog::ServerName;

/// The client, as far as a server's call can reach it.
#[async_trait]
pub trait Interact: Send + Sync + 'static {
    /// What it can be asked: the `elicitation` and `sampling` capabilities that a server started for it is told.
    fn offers(&self) -> Value {
        json!({})
    }

    /// Asks, and waits as long as it takes; the caller stops waiting when the call ends.
    async fn request(&self, question: Question) -> Reply;

    /// Shows something; must not block.
    fn notify(&self, event: Event);
}

/// A question of a server.
#[derive(Debug, Clone)]
pub struct Question {
    /// Who asks.
    pub server: ServerName,
    /// The tool whose call led to it, where that is known.
    pub tool: Option<String>,
    /// What kind of answer is wanted.
    pub kind: QuestionKind,
    /// Parameters of `elicitation/create` or `sampling/createMessage`, as the server sent them.
    pub params: Value,
    /// Fires when the answer is of no use any more.
    pub cancel: CancellationToken,
}

/// What kind of answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// `elicitation/create`: of the user.
    Elicitation,
    /// `sampling/createMessage`: of the client's model.
    Sampling,
}

/// The ways in which a question can end.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Answered. Of an elicitation the content (null where there is none, as in URL mode), of sampling the result.
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
    /// `notifications/progress` of a call.
    Progress {
        /// Who reports.
        server: ServerName,
        /// The tool at work.
        tool: String,
        /// Parameters as sent, without the token.
        params: Value,
    },
    /// `notifications/message`.
    Log {
        /// Who reports.
        server: ServerName,
        /// Parameters as sent.
        params: Value,
    },
    /// `notifications/elicitation/complete`: what the user was sent to a page for is done.
    ElicitationDone {
        /// Who reports.
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
    /// The method that asks it.
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
