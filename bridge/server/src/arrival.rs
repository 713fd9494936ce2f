//! Calls begin in the order in which the client sent them: each request is worked on by a task of its own, and tasks that
//! were started together run in any order.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Gives out places of one connection.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    given: u64,
    waiting: Arc<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    places: Mutex<BTreeSet<u64>>,
    changed: Notify,
}

/// The place of one call. It is given up when dropped, whatever became of the call.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    waiting: Arc<Waiting>,
}

impl Arrivals {
    /// A call has come.
    pub(super) fn next(&mut self) -> Arc<Place> {
        self.given += 1;
        self.waiting.places().insert(self.given);
        Arc::new(Place {
            number: self.given,
            waiting: Arc::clone(&self.waiting),
        })
    }
}

impl Waiting {
    fn places(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until all calls that came before have begun, or have come to nothing.
    pub(super) async fn turn(&self) {
        loop {
            let mut changed = std::pin::pin!(self.waiting.changed.notified());
            changed.as_mut().enable();
            let first = self.waiting.places().first().copied();
            if first.is_none_or(|first| first >= self.number) {
                return;
            }
            changed.await;
        }
    }

    /// The call has begun.
    pub(super) fn pass(&self) {
        if self.waiting.places().remove(&self.number) {
            self.waiting.changed.notify_waiters();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pass();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_waits_for_all_before_it_in_whatever_order_those_end() {
        let mut arrivals = Arrivals::default();
        let [first, second, third] = [arrivals.next(), arrivals.next(), arrivals.next()];
        first.turn().await;
        let last = tokio::spawn(async move { third.turn().await });
        drop(second);
        tokio::task::yield_now().await;
        assert!(!last.is_finished());
        first.pass();
        last.await.unwrap();
        // Those that have ended are no hindrance to those that come later.
        arrivals.next().turn().await;
    }
}
