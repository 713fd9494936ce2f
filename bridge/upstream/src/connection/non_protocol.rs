//! What a server says that is not a message: counted, and hardly ever logged.

use std::sync::atomic::{AtomicU64, Ordering};

use bridge_catalog::ServerName;
use bridge_common::Mutex;

use crate::message::start_of;

/// Counts what a server said that was not a message, and keeps the last of it.
#[derive(Default)]
pub(crate) struct NonProtocolOutput {
    count: AtomicU64,
    last: Mutex<String>,
}

impl NonProtocolOutput {
    /// Counts one more, and logs the first and then ever fewer.
    pub(crate) fn add(&self, server: &ServerName, what: &str) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        what.clone_into(&mut self.last.lock());
        if count.is_power_of_two() {
            tracing::warn!(server.name = %server, count, "server wrote something that is not an MCP message");
            tracing::trace!(server.name = %server, what, "not an MCP message");
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How much there was and the last of it, for a message; `None` where there was nothing.
    pub(crate) fn describe(&self) -> Option<String> {
        let count = self.count();
        (count > 0).then(|| {
            let last = start_of(&self.last.lock());
            format!("it wrote {count} lines that are not MCP messages, such as {last:?}")
        })
    }
}
