//! The current catalog: read at the first request and again only when a file has changed.
//!
//! Each request costs one `stat` for each of some forty paths; nothing runs in between.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Catalog, SearchPaths};

/// Hands out the current catalog.
#[derive(Debug)]
pub struct Watcher {
    search_paths: Arc<SearchPaths>,
    current: Mutex<Option<Arc<Catalog>>>,
}

impl Watcher {
    /// Reads nothing yet: a client that has just started the bridge is waiting, and may never ask for a server.
    pub fn new(search_paths: SearchPaths) -> Self {
        Self {
            search_paths: Arc::new(search_paths),
            current: Mutex::default(),
        }
    }

    /// The catalog of the files as they are now; older catalogs stay unchanged. Blocks while files are read: use
    /// `spawn_blocking` where that matters.
    pub fn current(&self) -> Arc<Catalog> {
        // A panic elsewhere cannot leave a half-written catalog: it is replaced as a whole.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(catalog) if !catalog.is_stale() => Arc::clone(catalog),
            _ => {
                let catalog = Arc::new(Catalog::load(Arc::clone(&self.search_paths)));
                *current = Some(Arc::clone(&catalog));
                catalog
            }
        }
    }
}
