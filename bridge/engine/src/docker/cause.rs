//! Why a connection to an engine failed, out of the errors of the HTTP clients.

use std::io;

use bridge_common::error::causes;

use crate::error::ConnectError;

/// The innermost cause: what the connection itself said.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> ConnectError {
    let Some(cause) = causes(error).last() else {
        return ConnectError::Client(error.to_string());
    };
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return error.into();
    }
    // The HTTP client names a connection that ended in the middle of an answer without a cause of
    // its own.
    match cause.downcast_ref::<hyper::Error>() {
        Some(error) if !error.is_parse() && !error.is_user() => ConnectError::closed(),
        _ => ConnectError::Client(cause.to_string()),
    }
}
