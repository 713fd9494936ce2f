//! Why an endpoint cannot be used, and why a request over HTTP has no answer.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use bridge_common::error::{causes, chain};
use http::StatusCode;
use rmcp::transport::auth::AuthError;

use crate::connection::Failure;
use crate::error::Denial;

/// An endpoint that cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    #[error("invalid server URL")]
    Url(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("invalid server URL: its scheme is {0}, not http or https")]
    Scheme(String),
    #[error("invalid header name {0:?}")]
    HeaderName(String),
    #[error("invalid value of the header {0}: headers cannot have some of its characters")]
    HeaderValue(String),
    #[error("cannot make an HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("its login cannot be used")]
    Login(#[source] AuthError),
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

/// A token could not be had, though somebody has logged in.
pub(super) fn login_failed(error: &AuthError) -> Failure {
    Failure::Unauthorized(Denial::LoginFailed(chain(error)))
}

/// An error with its deepest cause, which says most.
pub(crate) fn with_root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    match causes(error).skip(1).last() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
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
