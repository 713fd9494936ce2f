//! The catalog as it is now: looked at again whenever somebody asks, read again only when a file changed.
//!
//! A look costs one `stat` for each of some forty paths; nothing runs in between.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Catalog, Places};

/// Hands out the current catalog.
#[derive(Debug)]
pub struct Watcher {
    places: Arc<Places>,
    current: Mutex<Arc<Catalog>>,
}

impl Watcher {
    /// Loads the catalog for the first time.
    pub fn new(places: Places) -> Self {
        let places = Arc::new(places);
        let current = Mutex::new(Arc::new(Catalog::load(Arc::clone(&places))));
        Self { places, current }
    }

    /// The catalog of the files as they are now. Whoever holds an older one keeps it unchanged. Blocks for as long as
    /// files take to read: call it from `spawn_blocking` where that matters.
    pub fn current(&self) -> Arc<Catalog> {
        // A panic elsewhere cannot leave a half-written catalog: it is replaced as a whole.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_stale() {
            *current = Arc::new(Catalog::load(Arc::clone(&self.places)));
        }
        Arc::clone(&current)
    }
}
