//! What is new in the store for a guest, without what holds secrets of definitions.

use std::cell::LazyCell;
use std::sync::Arc;

use bridge_store::{Part, Seen, Update};
use tokio::task::JoinHandle;

use crate::Broker;

impl Broker {
    /// What is new of these parts for a guest that has seen `seen`.
    pub async fn update(self: &Arc<Self>, seen: Seen, parts: &'static [Part]) -> (Seen, Update) {
        self.begin_update(seen, parts).await.unwrap_or_default()
    }

    /// Starts reading it on a thread of its own.
    pub fn begin_update(
        self: &Arc<Self>,
        seen: Seen,
        parts: &'static [Part],
    ) -> JoinHandle<(Seen, Update)> {
        let broker = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let mut seen = seen;
            // Secrets are only looked up where something is new.
            let secrets = LazyCell::new(|| broker.secrets());
            let hides = |text: &str| secrets.redactor().finds_in(text);
            let update = broker.store().update(&mut seen, parts, &hides);
            (seen, update)
        })
    }
}
