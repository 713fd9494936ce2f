//! A guest in a container.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::ledger::Entry;
use super::{Shared, diagnostics};
use bridge_engine::{Attached, ContainerId, Engine, Error, Exit, InUse};
use bridge_session::{Guest, LaunchError};
use bridge_settings::{Limit, Limits};
use bridge_wire::GuestReport;

/// A guest in a container; removed when dropped.
pub(super) struct ContainerGuest {
    engine: Arc<dyn Engine>,
    id: ContainerId,
    attached: Option<Attached>,
    /// Waited for from before the start, so that the end cannot be missed, and as long as the guest
    /// is here.
    exit: SharedFuture<BoxFuture<'static, Result<Exit, Error>>>,
    output_ended: CancellationToken,
    limits: Limits,
    allow_unenforced: BTreeSet<Limit>,
    tasks: TaskTracker,
    hold: Option<Hold>,
}

/// What a container holds until it is removed.
pub(super) struct Hold {
    pub(super) entry: Entry,
    pub(super) in_use: InUse,
}

impl ContainerGuest {
    /// Takes over a container that was created and has not started.
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        id: ContainerId,
        shared: &Shared,
        hold: Hold,
    ) -> Self {
        let (waiting, awaited) = (engine.clone(), id.clone());
        let output_ended = CancellationToken::new();
        let ended = output_ended.clone();
        let task = tokio::spawn(async move { waiting.wait(&awaited, ended).await });
        // Not among the tracked tasks, which are awaited at the end: it may have nothing to wait
        // for, and then never ends.
        let task = AbortOnDropHandle::new(task);
        let unknown = Exit {
            code: -1,
            out_of_memory: false,
        };
        let exit = async move {
            task.await.unwrap_or_else(|error| {
                tracing::error!(%error, "cannot wait for a guest's end");
                Ok(unknown)
            })
        };
        Self {
            engine,
            id,
            attached: None,
            exit: exit.boxed().shared(),
            output_ended,
            limits: shared.limits,
            allow_unenforced: shared.allow_unenforced.clone(),
            tasks: shared.tasks.clone(),
            hold: Some(hold),
        }
    }

    /// The container now runs.
    pub(super) fn started(mut self, attached: Attached) -> Self {
        self.attached = Some(attached);
        self
    }

    /// Removes the container of a start that failed.
    pub(super) async fn discard(mut self) {
        self.remove().await;
    }

    /// Removes the container, also if whoever waits for it gives up.
    async fn remove(&mut self) {
        // A closed stream is an end of its own, should the removal fail.
        self.attached = None;
        if let Some(hold) = self.hold.take() {
            let removal = removal(self.engine.clone(), self.id.clone(), hold);
            // A removal that panicked has said so; there is nothing left to wait for.
            let _ = self.tasks.spawn(removal).await;
        }
    }
}

async fn removal(engine: Arc<dyn Engine>, id: ContainerId, hold: Hold) {
    match engine.remove(&id).await {
        Ok(()) => hold.entry.settle(),
        Err(error) => {
            tracing::warn!(container.id = %id.0, %error, "cannot remove the guest's container");
        }
    }
    drop(hold.in_use);
}

impl Drop for ContainerGuest {
    fn drop(&mut self) {
        if let (Some(hold), Ok(runtime)) = (self.hold.take(), tokio::runtime::Handle::try_current())
        {
            let removal = removal(self.engine.clone(), self.id.clone(), hold);
            self.tasks.spawn_on(removal, &runtime);
        }
    }
}

#[async_trait]
impl Guest for ContainerGuest {
    fn attach(&mut self) -> Option<Attached> {
        self.attached.take()
    }

    fn check(&self, report: &GuestReport) -> Result<(), LaunchError> {
        diagnostics::check(
            report,
            &self.limits,
            &self.allow_unenforced,
            self.engine.identity(),
        )
    }

    async fn exit(&mut self) -> Result<Exit, Error> {
        self.output_ended.cancel();
        self.exit.clone().await
    }

    async fn kill(&mut self) {
        self.remove().await;
    }
}
