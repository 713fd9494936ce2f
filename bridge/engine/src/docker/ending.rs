//! The end of containers: waiting for it, removing them, and removing those of dead bridges.

use std::pin::pin;
use std::time::Duration;

use bollard::errors::Error as ApiError;
use bollard::query_parameters::{RemoveContainerOptionsBuilder, WaitContainerOptionsBuilder};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::list::Listed;
use super::{ACT, DockerEngine};
use crate::{ContainerId, Error, Exit, Owner};
use bridge_settings::EngineKind;

/// How often a refused removal is asked for again: 3.5 s in all.
const REMOVE_TRIES: u32 = 20;
/// The first and the longest pause in between; each is twice the last.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// How many containers are removed at once.
const AT_ONCE: usize = 8;

/// How long after a removal the guest's status may arrive: podman looks for it four times a second.
const LATE: Duration = Duration::from_secs(1);
/// The status of an end that nobody saw.
const UNKNOWN: Exit = Exit {
    code: -1,
    out_of_memory: false,
};

impl DockerEngine {
    /// Waits for the end of a container. Once `output_ended` is cancelled, a container that is
    /// already gone counts too.
    pub(super) async fn wait_for_end(
        &self,
        id: &ContainerId,
        output_ended: CancellationToken,
    ) -> Result<Exit, Error> {
        // `next-exit` never comes for a guest that had ended before it was asked. `removed` always
        // comes; but podman then says 0 of every status, and docker comes later with it.
        let told = self.identity.kind == EngineKind::Docker;
        let exit = pin!(self.wait_until(id, "next-exit"));
        let removed = pin!(async {
            // Docker is told of a removal; podman looks for it until it is there: four times a
            // second, and before 4.6 without a pause, which keeps a processor busy.
            if !told {
                output_ended.cancelled().await;
            }
            self.wait_until(id, "removed").await
        });
        match select(exit, removed).await {
            Either::Left((exit, _)) => exit,
            Either::Right((Ok(removed), exit)) => {
                let otherwise = if told { removed } else { UNKNOWN };
                timeout(LATE, exit).await.unwrap_or(Ok(otherwise))
            }
            Either::Right((Err(error), _)) => Err(error),
        }
    }

    /// Removes containers whose owner is dead; returns how many.
    pub(super) async fn remove_ownerless(&self, owner: &Owner) -> Result<usize, Error> {
        let mut found = self.listed(Some(owner.filter())).await?;
        found.retain(|container| owner.outlived(|name| container.label(name)));
        let all = found.len();
        let failures = self.remove_each(found).await;
        Ok(all - failures.len())
    }

    /// Removes every container of one bridge.
    pub(crate) async fn remove_all_of(&self, instance: &str) -> Result<(), Error> {
        let found = self.listed(Some(Owner::instance_label(instance))).await?;
        let mut failures = self.remove_each(found).await;
        failures.pop().map_or(Ok(()), Err)
    }

    /// Removes as many as possible and returns what went wrong with the others.
    async fn remove_each(&self, containers: Vec<Listed>) -> Vec<Error> {
        futures_util::stream::iter(containers)
            .map(|container| async move {
                let id = container.id;
                tracing::info!(container.id = %id, "removing a container that lost its owner");
                let failure = self.remove_by_name(&id).await.err();
                if let Some(error) = &failure {
                    tracing::warn!(container.id = %id, %error, "cannot remove a container that lost its owner");
                }
                failure
            })
            .buffer_unordered(AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await
    }

    /// Kills and removes a container in whatever state.
    pub(super) async fn remove_by_name(&self, id: &str) -> Result<(), Error> {
        let act = "remove the guest's container";
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let (mut pause, longest) = RETRY_PAUSE;
        let mut tries = 0;
        loop {
            let remove = self.client.remove_container(id, Some(options.clone()));
            match self.within(ACT, act, remove).await {
                Err(Error::Rejected { status: 404, .. }) => return Ok(()),
                // The container is already being removed; the wait says when it is gone.
                Err(Error::Rejected { status: 409, .. }) => {
                    return self.until_removed(id, act).await;
                }
                // Podman cannot remove what has just ended by itself; a little later it can, or it
                // is gone.
                Err(Error::Rejected { .. }) if tries < REMOVE_TRIES => tries += 1,
                result => return result,
            }
            tokio::time::sleep(pause).await;
            pause = longest.min(pause * 2);
        }
    }

    /// The status that the engine gives when `condition` is met.
    async fn wait_until(&self, id: &ContainerId, condition: &str) -> Result<Exit, Error> {
        let options = WaitContainerOptionsBuilder::default()
            .condition(condition)
            .build();
        let mut waiting = self.client.wait_container(&id.0, Some(options)).boxed();
        let act = "wait for the guest's end";
        match waiting.next().await {
            Some(Ok(end)) => Ok(Exit {
                code: end.status_code,
                out_of_memory: false,
            }),
            Some(Err(ApiError::DockerContainerWaitError { code, .. })) => Ok(Exit {
                code,
                out_of_memory: false,
            }),
            Some(Err(ApiError::DockerResponseServerError {
                status_code: 404, ..
            })) => Ok(UNKNOWN),
            Some(Err(error)) => Err(self.failed(act, error)),
            None => Err(Error::Gone {
                engine: self.identity.kind,
                endpoint: self.identity.endpoint.clone(),
                act,
                reason: "connection closed".to_owned(),
            }),
        }
    }

    async fn until_removed(&self, id: &str, act: &'static str) -> Result<(), Error> {
        let options = WaitContainerOptionsBuilder::default()
            .condition("removed")
            .build();
        let mut waiting = self.client.wait_container(id, Some(options)).boxed();
        let wait = async {
            match waiting.next().await {
                Some(Err(ApiError::DockerContainerWaitError { .. }) | Ok(_)) | None => Ok(()),
                Some(Err(error)) => Err(error),
            }
        };
        match self.within(ACT, act, wait).await {
            Err(Error::Rejected { status: 404, .. }) => Ok(()),
            result => result,
        }
    }
}
