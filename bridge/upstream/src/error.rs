//! Why a server or a tool gave no result, in words for the model. All texts are free of secrets
//! already, so errors end here: their sources, which are not, are put into words before.

use std::time::Duration;

use super::QuestionKind;
use super::message::RpcError;
use bridge_catalog::ServerName;
use bridge_common::human;

/// What went wrong with a server. `act` is the tool or the method that was asked for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields of errors say what they are")]
pub enum Error {
    /// The server did not come up: how it ended, or what it answered, and its last words.
    #[error("server \"{server}\" did not start: {reason}")]
    Start { server: ServerName, reason: String },
    /// The server is not up yet; the start goes on and the next call joins it.
    #[error(
        "server \"{server}\" is still starting after {:.0} s ({phase}); it goes on, and the next call joins it{}",
        .elapsed.as_secs_f64(), stderr(.last_words)
    )]
    StillStarting {
        server: ServerName,
        phase: &'static str,
        elapsed: Duration,
        last_words: String,
    },
    /// The server failed a moment ago and is left alone for a while.
    #[error("{error}; it is tried again in {:.0} s", .wait.as_secs_f64().ceil())]
    BackingOff { error: Box<Error>, wait: Duration },
    /// The server ended while a request was under way: how, and its last words.
    #[error(
        "server \"{server}\" ended during {act}: {reason}. Whether {act} took effect is unknown; it was not repeated"
    )]
    Died {
        server: ServerName,
        act: String,
        reason: String,
    },
    /// There was no answer in time. `non_protocol` quotes what the server wrote instead, if it did.
    #[error("{server}.{act} did not answer within {:.1} s{}", .after.as_secs_f64(), in_brackets(.non_protocol))]
    TimedOut {
        server: ServerName,
        act: String,
        after: Duration,
        non_protocol: String,
    },
    /// The caller gave up.
    #[error("{server}.{act} was cancelled")]
    Cancelled { server: ServerName, act: String },
    /// The server answered with an error.
    #[error("{server}.{act}: {}", .error.message)]
    Rpc {
        server: ServerName,
        act: String,
        error: Box<RpcError>,
    },
    /// The answer is larger than allowed.
    #[error("{server}.{act} answered with {}, more than the {} allowed", human::size(*.bytes), human::size(*.limit))]
    TooLarge {
        server: ServerName,
        act: String,
        bytes: u64,
        limit: u64,
    },
    /// The answer is not what the protocol says it should be.
    #[error("{server}.{act} answered with something that is not a valid MCP result: {what}")]
    Malformed {
        server: ServerName,
        act: String,
        what: String,
    },
    /// The request or its answer was lost on the way.
    #[error("{server}.{act} failed: {what}")]
    Transport {
        server: ServerName,
        act: String,
        what: String,
    },
    /// The tool needs an answer that this client cannot give.
    #[error("{server}.{act} asks for {}, which this client does not support: {why}", wanted(*.kind))]
    CannotAsk {
        server: ServerName,
        act: String,
        kind: QuestionKind,
        why: String,
    },
    /// The tool needs an answer, and the client gave none.
    #[error(
        "{server}.{act} asks for {}; the client answered: {} (code {})",
        wanted(*.kind), .error.message, .error.code
    )]
    NotAnswered {
        server: ServerName,
        act: String,
        kind: QuestionKind,
        error: Box<RpcError>,
    },
    /// The server refuses the credentials, or wants some.
    #[error("server \"{server}\" {}", .denial.words(server))]
    Unauthorized { server: ServerName, denial: Denial },
    /// The bridge is shutting down.
    #[error("server \"{server}\" is being shut down with the bridge")]
    ShuttingDown { server: ServerName },
}

/// What is wrong with the credentials of a request, or with those that it has none of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The server wants a login.
    LoginNeeded,
    /// The server refuses the credentials of the definition.
    CredentialsRejected,
    /// The server accepts the credentials, but wants more rights.
    MoreRightsNeeded {
        /// The rights that it names.
        scope: Option<String>,
        /// The credentials stand in the definition: a login does not help.
        configured: bool,
    },
    /// There has been a login, but no token can be had from it; why.
    LoginFailed(String),
}

impl Denial {
    /// What the server says, and the way out.
    fn words(&self, server: &ServerName) -> String {
        match self {
            Self::LoginNeeded => format!(
                "needs a login; the user can do that with: mcp-code-bridge servers login {server}"
            ),
            Self::CredentialsRejected => {
                "rejected the configured credentials (401 Unauthorized)".to_owned()
            }
            Self::MoreRightsNeeded { scope, configured } => {
                let scope = scope.as_deref().unwrap_or("another scope");
                let way_out = if *configured {
                    "give its definition such a token".to_owned()
                } else {
                    format!("the user can allow that with: mcp-code-bridge servers login {server}")
                };
                format!("wants a token with more rights ({scope}); {way_out}")
            }
            Self::LoginFailed(why) => format!("could not be logged in to: {why}"),
        }
    }
}

impl Error {
    /// The server that it is about.
    pub fn server(&self) -> &ServerName {
        match self {
            Self::BackingOff { error, .. } => error.server(),
            Self::Start { server, .. }
            | Self::StillStarting { server, .. }
            | Self::Died { server, .. }
            | Self::TimedOut { server, .. }
            | Self::Cancelled { server, .. }
            | Self::Rpc { server, .. }
            | Self::TooLarge { server, .. }
            | Self::Malformed { server, .. }
            | Self::Transport { server, .. }
            | Self::CannotAsk { server, .. }
            | Self::NotAnswered { server, .. }
            | Self::Unauthorized { server, .. }
            | Self::ShuttingDown { server } => server,
        }
    }
}

fn stderr(last_words: &str) -> String {
    if last_words.is_empty() {
        String::new()
    } else {
        format!("; stderr: {last_words}")
    }
}

fn in_brackets(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
    }
}

fn wanted(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Elicitation => "an answer of the user (elicitation)",
        QuestionKind::Sampling => "an answer of the client's model (sampling)",
    }
}
