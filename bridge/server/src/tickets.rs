//! Calls begin in the order in which the client sent them: rmcp handles each request in a task of
//! its own, and tasks that were started together run in any order. So each call draws a ticket
//! from the queue of its connection, waits for its turn, and drops the ticket once it has begun.

use std::collections::BTreeSet;
use std::sync::Arc;

use bridge_common::Mutex;
use tokio::sync::Notify;

/// Issues the tickets of one connection.
#[derive(Debug, Default)]
pub(super) struct TicketQueue {
    issued: u64,
    waiting: Arc<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    numbers: Mutex<BTreeSet<u64>>,
    changed: Notify,
}

/// The position of one call in the queue. Dropping it lets the next call begin, whether or not this
/// one did.
#[derive(Debug)]
pub(super) struct Ticket {
    number: u64,
    waiting: Arc<Waiting>,
}

impl TicketQueue {
    /// Issues a ticket behind all earlier ones. It is shared because rmcp's extensions must be
    /// cloneable; the last clone that is dropped releases it.
    pub(super) fn issue(&mut self) -> Arc<Ticket> {
        self.issued += 1;
        self.waiting.numbers.lock().insert(self.issued);
        Arc::new(Ticket {
            number: self.issued,
            waiting: Arc::clone(&self.waiting),
        })
    }
}

impl Ticket {
    /// Waits until every earlier ticket has been dropped.
    pub(super) async fn wait_turn(&self) {
        loop {
            let mut changed = std::pin::pin!(self.waiting.changed.notified());
            changed.as_mut().enable();
            let first = self.waiting.numbers.lock().first().copied();
            if first.is_none_or(|first| first >= self.number) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.waiting.numbers.lock().remove(&self.number);
        self.waiting.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ticket_waits_for_all_earlier_ones_whatever_order_they_are_dropped_in() {
        let mut queue = TicketQueue::default();
        let [first, second, third] = [queue.issue(), queue.issue(), queue.issue()];
        first.wait_turn().await;
        let last = tokio::spawn(async move { third.wait_turn().await });
        drop(second);
        tokio::task::yield_now().await;
        assert!(!last.is_finished());
        drop(first);
        last.await.unwrap();
        // Dropped tickets do not hold up later ones.
        queue.issue().wait_turn().await;
    }
}
