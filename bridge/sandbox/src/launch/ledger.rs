//! Which containers of this bridge may exist: counted from before one is asked for until it is
//! known to be gone.
//!
//! The bridge says that all is in order only when none is left. A request that an engine did not
//! answer may still be carried out after the bridge's end, so its container counts until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of containers that may exist.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<AtomicUsize>);

/// One container that may exist. Dropped without [`Entry::settle`], it counts until the bridge
/// ends.
#[derive(Debug)]
#[must_use]
pub(super) struct Entry(Arc<AtomicUsize>);

impl Ledger {
    /// A container is about to be made.
    pub(super) fn open(&self) -> Entry {
        self.0.fetch_add(1, Ordering::AcqRel);
        Entry(self.0.clone())
    }

    /// Every container that was being made is known to be gone.
    pub(super) fn is_settled(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl Entry {
    /// The container was removed, or the engine refused to make it.
    pub(super) fn settle(self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_that_is_dropped_still_counts() {
        let ledger = Ledger::default();
        let (removed, lost) = (ledger.open(), ledger.open());
        removed.settle();
        assert!(!ledger.is_settled());
        drop(lost);
        assert!(!ledger.is_settled());
    }

    #[test]
    fn ledger_is_settled_when_every_container_is_gone() {
        let ledger = Ledger::default();
        assert!(ledger.is_settled());
        let (one, other) = (ledger.open(), ledger.open());
        one.settle();
        other.settle();
        assert!(ledger.is_settled());
    }
}
