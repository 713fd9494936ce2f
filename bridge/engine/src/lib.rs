//! The container engine: found, asked what it can do, and told to run hardened guests.
//!
//! Owns the [`Engine`] trait and its types (`spec`), the errors of engines, who owns a container
//! ([`Owner`]), and the search for an engine ([`Finder`]). One implementation lies beside the
//! trait: `docker`, for every engine that speaks Docker's API.
//!
//! Must never know images, sessions, frames or MCP: the sandbox says what to run. Nothing outside
//! `docker` sees a type of the Docker API, so that an engine without that API can stand beside it.
//!
//! Entry points: [`Finder::engine`] finds an engine, [`Engine::create`] to [`Engine::start`] run a
//! guest, [`Engine::reap`] removes what dead bridges left, and [`remove_leftovers`] does the same
//! for one bridge from its guardian.

use std::fs::File;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio_util::sync::CancellationToken;

mod docker;
mod error;
mod finder;
mod leftovers;
mod owner;
mod seccomp;
mod spec;

pub use error::{Attempt, Attempts, ConnectError, Error, RejectionCause};
pub use finder::{Finder, InUse, Tell};
pub use leftovers::remove_leftovers;
pub use owner::Owner;
pub use spec::{
    Attached, ContainerId, ContainerSpec, Created, EngineReport, Exit, Identity, ImageFacts, Output,
};

/// A container engine. Every call except [`Engine::wait`] has a time limit of its own.
///
/// A guest is started by `create`, then `inspect` and `attach` (in parallel, if wished), then
/// `start`. Nothing of the guest runs before `start`, and an attachment made before it loses no
/// byte.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Which engine this is.
    fn identity(&self) -> &Identity;
    /// What the engine can enforce. The engine is asked once; podman takes a tenth of a second.
    async fn report(&self) -> Result<EngineReport, Error>;
    /// Checks that the engine still answers.
    async fn ping(&self) -> Result<(), Error>;
    /// The image with that ID or digest, if the engine has it.
    async fn image(&self, id: &str) -> Result<Option<ImageFacts>, Error>;
    /// Loads an open archive; `sent` gets the number of bytes sent so far, now and then.
    async fn load_image(&self, archive: File, sent: &(dyn Fn(u64) + Sync)) -> Result<(), Error>;
    /// The image as an archive, for hashing.
    async fn export_image(
        &self,
        id: &str,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error>;
    /// Creates a hardened container.
    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId, Error>;
    /// Compares the container with its specification.
    async fn inspect(&self, id: &ContainerId, spec: &ContainerSpec) -> Result<Created, Error>;
    /// Attaches to a container that has not started.
    async fn attach(&self, id: &ContainerId) -> Result<Attached, Error>;
    /// Starts a container that was created.
    async fn start(&self, id: &ContainerId) -> Result<(), Error>;
    /// Waits for the end of a container. Call it before [`Engine::start`], because a container is
    /// removed when it ends. Cancel `output_ended` when the container's output has ended: only then
    /// is an end that was missed looked for, since that costs podman too much while a guest lives.
    /// Never returns for a container that is removed before its start.
    async fn wait(&self, id: &ContainerId, output_ended: CancellationToken) -> Result<Exit, Error>;
    /// Kills and removes a container. One that is already gone counts as removed.
    async fn remove(&self, id: &ContainerId) -> Result<(), Error>;
    /// How many containers run on the engine, of whatever owner.
    async fn running(&self) -> Result<usize, Error>;
    /// Removes the containers of dead bridges and returns their number.
    async fn reap(&self, owner: &Owner) -> Result<usize, Error>;
}
