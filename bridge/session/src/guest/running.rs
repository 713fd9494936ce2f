//! A guest that is up: fields only. What is done with it stands in the files beside this one.

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::api::Guest;
use crate::sync::GuestSync;
use crate::sync::out_files::FileQuestions;
use bridge_wire::Link;

/// A started, checked guest.
pub(crate) struct RunningGuest {
    /// The container that the guest runs in.
    pub(crate) container: Box<dyn Guest>,
    /// Frames to the guest and from it.
    pub(crate) link: Link,
    /// Memory limit in bytes that the guest's control group enforces.
    pub(crate) memory_limit: Option<u64>,
    /// Number of cells that the guest has been given.
    pub(crate) cells: u64,
    /// Meaningless frames since the last run began.
    pub(crate) ignored: u32,
    /// Bytes that had been received when the last run ended.
    pub(crate) idle_from: u64,
    /// Questions about files in `/workspace/out`.
    pub(crate) questions: FileQuestions,
    /// What the guest knows of what outlives it.
    pub(crate) sync: GuestSync,
}

impl RunningGuest {
    /// Kills the guest in a task, which must not be cut short.
    pub(crate) fn kill(mut self, tasks: &TaskTracker) -> JoinHandle<()> {
        tasks.spawn(async move { self.container.kill().await })
    }
}
