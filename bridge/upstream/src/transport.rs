//! How messages reach a server and come back: as lines of a child process, or over HTTP.
//!
//! Both transports take messages through an [`Outbox`](crate::connection::Outbox) and hand what
//! comes back to the connection through one inbox, with one bound on its size.

pub(crate) mod http;
mod inbox;
pub(crate) mod stdio;
