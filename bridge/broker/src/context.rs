//! What one execution may do, and the answers to its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::{GuestError, Kind, Scope};
use bridge_common::Mutex;
use bridge_store::Origin;
use bridge_upstream::{Interact, Payload};

/// What bounds a run, and whom its servers can reach.
#[derive(Clone)]
pub struct RunContext {
    /// When the run is over at the latest.
    pub deadline: Option<Instant>,
    /// Fires when the client gives up.
    pub cancel: CancellationToken,
    /// The client, for questions of servers.
    pub interact: Arc<dyn Interact>,
    /// Noted with what the run keeps.
    pub origin: Origin,
}

/// An answer that the guest has not read yet.
#[derive(Debug)]
struct Unread(Arc<AtomicUsize>);

impl Unread {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What became of one request. As long as an outcome is kept, its request counts as being worked
/// on: a guest that does not read its answers gets no more of them.
#[derive(Debug)]
pub struct Outcome {
    /// The number that the guest gave the request.
    pub call: u64,
    /// The payload for the guest, or the exception for user code.
    pub result: Result<Payload, GuestError>,
    _permit: Option<OwnedSemaphorePermit>,
    _unread: Unread,
}

/// One execution and what its requests share.
pub(super) struct ActiveRun {
    pub(super) scope: Arc<Scope>,
    pub(super) context: RunContext,
    pub(super) calls: Mutex<Calls>,
    outcomes: mpsc::UnboundedSender<Outcome>,
    unread: Arc<AtomicUsize>,
}

impl ActiveRun {
    /// The run that `context` describes; outcomes of its requests go to `outcomes`.
    pub(super) fn new(
        scope: Arc<Scope>,
        context: RunContext,
        outcomes: mpsc::UnboundedSender<Outcome>,
    ) -> Self {
        Self {
            scope,
            context,
            calls: Mutex::default(),
            outcomes,
            unread: Arc::default(),
        }
    }

    /// Outcomes that have been sent and are still kept by their receiver.
    pub(super) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    pub(super) fn refuse(&self, call: u64, error: GuestError) {
        self.send(call, Err(error), None);
    }

    pub(super) fn send(
        &self,
        call: u64,
        result: Result<Payload, GuestError>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let unread = Unread::new(&self.unread);
        let _ = self.outcomes.send(Outcome {
            call,
            result,
            _permit: permit,
            _unread: unread,
        });
    }

    /// Counts a change of what is kept, and refuses it beyond the limit.
    pub(super) fn count_write(&self) -> Result<(), GuestError> {
        let most = self.scope.broker.limits.writes;
        let mut calls = self.calls.lock();
        calls.writes += 1;
        if calls.writes > most {
            let message = format!(
                "this run has changed what is kept {most} times, the most that one run may"
            );
            return Err(GuestError::new(Kind::Permission, message).because("write_limit"));
        }
        Ok(())
    }

    /// Counts a tool call and names it for the summary; refuses it beyond the limit.
    pub(super) fn count(&self, call: u64, server: &str, tool: &str) -> Result<(), GuestError> {
        let most = self.scope.broker.limits.calls;
        let mut calls = self.calls.lock();
        calls.made += 1;
        if calls.made > most {
            let message =
                format!("this run has made {most} tool calls, the most that one run may make");
            return Err(GuestError::new(Kind::Permission, message).because("call_limit"));
        }
        let name = server
            .chars()
            .take(100)
            .chain(['.'])
            .chain(tool.chars().take(100));
        calls.set_tool(call, name.collect());
        Ok(())
    }
}
