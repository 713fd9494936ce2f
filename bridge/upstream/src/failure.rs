//! Why a request has no result, whichever transport carries it.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::error::Denial;
use crate::message::RpcError;

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection is closed; `sent` where the server may have seen the request.
    Closed { reason: String, sent: bool },
    /// The caller gave up.
    Cancelled,
    /// There was no answer and no sign of life in this time.
    TimedOut(Duration),
    /// The server answered with an error.
    Rpc(RpcError),
    /// The answer was larger than allowed.
    TooLarge { bytes: u64 },
    /// The answer was not valid; what is wrong with it.
    Malformed(String),
    /// The request failed on its own; the connection lives on.
    Transport(TransportError),
    /// The server refuses the credentials, or wants some.
    Unauthorized(Denial),
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        Self::Transport(error)
    }
}

/// A request that was lost on its way over HTTP, or its answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("it cannot be reached")]
    Unreachable(#[source] Arc<reqwest::Error>),
    #[error("the connection failed")]
    Broken(#[source] Arc<reqwest::Error>),
    #[error("the connection timed out")]
    TimedOut(#[source] Arc<reqwest::Error>),
    /// The server is overloaded or broken.
    #[error("HTTP {status}{}", Retry(.retry_after.as_deref()))]
    Status {
        status: u16,
        retry_after: Option<String>,
    },
    #[error("HTTP {0}: it redirects to another host; put that address into its definition")]
    Redirected(StatusCode),
    #[error("HTTP {0} without content")]
    Empty(StatusCode),
    /// The body is not a JSON-RPC message; what it begins with.
    #[error("HTTP {status} ({kind}): {start}")]
    NotAMessage {
        status: StatusCode,
        kind: String,
        start: String,
    },
    #[error("the stream of events cannot be read")]
    Events(#[source] Arc<sse_stream::Error>),
    #[error("the stream of events ended before the answer")]
    EventsEnded,
    #[error("the session was lost before the answer")]
    SessionLost,
}

impl TransportError {
    /// Whether the server may have seen the request, and acted on it.
    pub(crate) fn may_have_been_seen(&self) -> bool {
        !matches!(self, Self::Unreachable(_))
    }
}

impl From<reqwest::Error> for TransportError {
    fn from(error: reqwest::Error) -> Self {
        // An address may hold a key.
        let error = Arc::new(error.without_url());
        if error.is_connect() {
            Self::Unreachable(error)
        } else if error.is_timeout() && error.source().is_none() {
            Self::TimedOut(error)
        } else {
            Self::Broken(error)
        }
    }
}

struct Retry<'a>(Option<&'a str>);

impl fmt::Display for Retry<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(after) => write!(formatter, " (retry after {after})"),
            None => Ok(()),
        }
    }
}
