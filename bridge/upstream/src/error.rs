//! Why a server or a tool gave no result, in words for the model. All texts are free of secrets already.

use std::time::Duration;

use super::message::RpcError;
use bridge_catalog::ServerName;

/// What went wrong with a server.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// It did not come up, and why.
    #[error("server \"{server}\" did not start: {reason}")]
    Start {
        /// Which.
        server: ServerName,
        /// How it ended, or what it answered, and its last words.
        reason: String,
    },
    /// It is not up yet; the start goes on and the next call joins it.
    #[error("server \"{server}\" is still starting after {:.0} s ({phase}); it goes on, and the next call joins it{}", .elapsed.as_secs_f64(), stderr(.last_words))]
    StillStarting {
        /// Which.
        server: ServerName,
        /// What it is at.
        phase: &'static str,
        /// For how long.
        elapsed: Duration,
        /// The end of its stderr.
        last_words: String,
    },
    /// It failed a moment ago and is left alone for a while.
    #[error("{error}; it is tried again in {:.0} s", .wait.as_secs_f64().ceil())]
    BackingOff {
        /// What happened then.
        error: Box<Error>,
        /// Until the next attempt.
        wait: Duration,
    },
    /// It ended while a request was under way.
    #[error(
        "server \"{server}\" ended during {act}: {reason}. Whether {act} took effect is unknown; it was not repeated"
    )]
    Died {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
        /// How it ended, and its last words.
        reason: String,
    },
    /// No answer in time.
    #[error("{server}.{act} did not answer within {:.1} s{}", .after.as_secs_f64(), in_brackets(.non_protocol))]
    TimedOut {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
        /// How long it was waited for.
        after: Duration,
        /// What the server wrote instead of messages, where it did.
        non_protocol: String,
    },
    /// The caller gave up.
    #[error("{server}.{act} was cancelled")]
    Cancelled {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
    },
    /// The server answered with an error.
    #[error("{server}.{act}: {}", .error.message)]
    Rpc {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
        /// The error as sent.
        error: Box<RpcError>,
    },
    /// The answer is larger than allowed.
    #[error("{server}.{act} answered with {}, more than the {} allowed", size(*.bytes), size(*.limit))]
    TooLarge {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The answer is not what the protocol says it should be.
    #[error("{server}.{act} answered with something that is no valid MCP result: {what}")]
    Malformed {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
        /// What is wrong with it.
        what: String,
    },
    /// The request or its answer was lost on the way.
    #[error("{server}.{act} failed: {what}")]
    Transport {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
        /// What happened.
        what: String,
    },
    /// The tool needs an answer that nobody can give.
    #[error("{server}.{act} asks for {}, which this client does not support: {why}", wanted(*.kind))]
    CannotAsk {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
        /// What it asked for.
        kind: super::QuestionKind,
        /// Why that cannot be had.
        why: String,
    },
    /// The tool needs an answer, and the client gave none.
    #[error("{server}.{act} asks for {}; the client answered: {} (code {})", wanted(*.kind), .error.message, .error.code)]
    NotAnswered {
        /// Which.
        server: ServerName,
        /// The tool or method.
        act: String,
        /// What it asked for.
        kind: super::QuestionKind,
        /// What the client said.
        error: Box<RpcError>,
    },
    /// The server refuses the credentials, or wants some.
    #[error("server \"{server}\" {reason}")]
    Unauthorized {
        /// Which.
        server: ServerName,
        /// What it refused, and what to do.
        reason: String,
    },
    /// The bridge is shutting down.
    #[error("server \"{server}\" is being shut down with the bridge")]
    ShuttingDown {
        /// Which.
        server: ServerName,
    },
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

fn wanted(kind: super::QuestionKind) -> &'static str {
    match kind {
        super::QuestionKind::Elicitation => "an answer of the user (elicitation)",
        super::QuestionKind::Sampling => "an answer of the client's model (sampling)",
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn size(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    match bytes {
        0..MIB => format!("{bytes} bytes"),
        _ => format!("{:.1} MiB", bytes as f64 / MIB as f64),
    }
}
