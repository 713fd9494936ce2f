//! Why an endpoint cannot be used, and why a request over HTTP has no answer.

use bridge_common::error::{causes, chain};
use rmcp::transport::auth::AuthError;

use crate::error::Denial;
use crate::failure::Failure;

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
