//! The container engine: found, asked what it can do, and told to run hardened guests.
//!
//! Owns the [`Engine`] trait and its types (`spec`), the errors of engines, who owns a container ([`Owner`]), and the search
//! for an engine ([`Finder`]). One implementation lies beside the trait: `docker`, for every engine that speaks Docker's API.
//!
//! Must never know images, sessions, frames or MCP: the sandbox says what to run. Nothing outside `docker` sees a type of
//! the Docker API, so that an engine without that API can stand beside it.
//!
//! Entry points: [`Finder::engine`] finds an engine, [`Engine::create`] to [`Engine::start`] run a guest, [`Engine::reap`]
//! removes what dead bridges left, and [`remove_leftovers`] does the same for one bridge from its guardian.

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

/// A container engine. Every call but [`Engine::wait`] has a deadline of its own.
///
/// A guest is started by `create`, then `inspect` and `attach` (at once, if wished), then `start`: nothing of the guest
/// runs before `start`, and what was attached before it loses no byte.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Which engine this is.
    fn identity(&self) -> &Identity;
    /// What it can enforce. Asked once; takes podman a tenth of a second.
    async fn report(&self) -> Result<EngineReport, Error>;
    /// Whether it still answers.
    async fn ping(&self) -> Result<(), Error>;
    /// The image of that ID or digest, if it is there.
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
    /// Compares what was made with what was asked for.
    async fn inspect(&self, id: &ContainerId, spec: &ContainerSpec) -> Result<Created, Error>;
    /// Attaches to a container that has not started.
    async fn attach(&self, id: &ContainerId) -> Result<Attached, Error>;
    /// Starts it.
    async fn start(&self, id: &ContainerId) -> Result<(), Error>;
    /// Waits for its end; to be called before [`Engine::start`], as a container goes when it ends. `output_ended` is to
    /// be cancelled when its output has ended: then an end that had been missed is looked for, which costs podman too
    /// much while a guest lives. Never comes for a container that is removed before its start.
    async fn wait(&self, id: &ContainerId, output_ended: CancellationToken) -> Result<Exit, Error>;
    /// SIGKILL, then removal. A container that is gone already is no error.
    async fn remove(&self, id: &ContainerId) -> Result<(), Error>;
    /// How many containers run, whoever's.
    async fn running(&self) -> Result<usize, Error>;
    /// Removes containers whose owner is dead; returns how many.
    async fn reap(&self, owner: &Owner) -> Result<usize, Error>;
}
