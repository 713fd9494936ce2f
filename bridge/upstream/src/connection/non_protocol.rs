//! What a server says that is no message: counted, and hardly ever logged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::message::start_of;
use bridge_catalog::ServerName;

/// Counts what a server said that was no message, and keeps the last.
#[derive(Default)]
pub(crate) struct NonProtocolOutput {
    count: AtomicU64,
    last: Mutex<String>,
}

impl NonProtocolOutput {
    /// Counts one, and logs the first and then ever fewer.
    pub(crate) fn add(&self, server: &ServerName, what: &str) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        what.clone_into(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
        if count.is_power_of_two() {
            tracing::warn!(server.name = %server, count, "server wrote something that is no MCP message");
            tracing::trace!(server.name = %server, what, "no MCP message");
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The last one, cut short.
    pub(crate) fn last(&self) -> String {
        start_of(&self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
