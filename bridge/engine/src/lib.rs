//! The container engine: found, asked what it can do, and told to run hardened guests.
//!
//! Nothing outside this module sees a Docker API type, so that an engine without that API (an OCI runtime driven
//! directly) can take its place. [`Finder`] finds one, [`Engine`] is what it can do.

use std::collections::BTreeMap;
use std::fs::File;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

use bridge_settings::{EngineKind, Limit, Limits};

mod api;
mod candidates;
mod connect;
mod contexts;
mod error;
mod finder;
mod hardening;
mod inspect;
mod leftovers;
mod owner;
mod podman;
mod profile;
mod report;
mod seccomp;

pub use contexts::hex;
pub use error::{Attempt, Attempts, Error};
pub use finder::{Finder, InUse, Tell};
pub use leftovers::remove_leftovers;
pub use owner::Owner;

/// A container by the engine's own immutable name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(pub String);

/// Which engine this is; known from its first answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Podman or Docker, by what it says of itself and not by the name of its socket.
    pub kind: EngineKind,
    /// The engine's version, such as `5.4.2`.
    pub version: String,
    /// The API version agreed on.
    pub api_version: String,
    /// Where it answers, such as `unix:///run/user/1000/podman/podman.sock`.
    pub endpoint: String,
    /// What named that address, such as `DOCKER_HOST` or `docker context colima`.
    pub origin: String,
    /// The engine's machine: `amd64`, `arm64`.
    pub architecture: String,
}

/// What the engine is and can enforce.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineReport {
    /// Which engine this is.
    pub identity: Identity,
    /// Guests run without root on the host.
    pub rootless: bool,
    /// 1 or 2, where told.
    pub cgroup_version: Option<u8>,
    /// The OCI runtime, such as `crun`.
    pub runtime: String,
    /// Limits that the engine says it cannot enforce.
    pub unenforced: Vec<Limit>,
}

/// What the engine knows of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageFacts {
    /// The engine's ID: the config digest, or with containerd's store the manifest digest.
    pub id: String,
    /// Digests of the uncompressed layers, in order.
    pub diff_ids: Vec<String>,
    /// `amd64`, `arm64`.
    pub architecture: String,
    /// `linux`.
    pub os: String,
    /// Digests of manifests under which it was loaded or pulled, where the engine kept them.
    pub manifests: Vec<String>,
    /// Variables that it sets, as `NAME=value`.
    pub environment: Vec<String>,
}

/// A hardened guest to create. All hardening that does not vary is the engine's own affair.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSpec {
    /// Immutable image ID.
    pub image_id: String,
    /// What the guest may use.
    pub limits: Limits,
    /// Variables that the image sets: others than these and the engine's own are a difference.
    pub environment: Vec<String>,
    /// Owner labels and others.
    pub labels: BTreeMap<String, String>,
    /// OCI runtime to ask for.
    pub runtime: Option<String>,
}

/// What the engine says it created, compared with what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Created {
    /// The image it was made from.
    pub image_id: String,
    /// Limits asked for that the container does not have.
    pub unenforced: Vec<Limit>,
    /// Hardening asked for that the container does not have, in words.
    pub differences: Vec<String>,
}

/// One piece of what the container wrote, cut anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Of its standard output: frames.
    Stdout(Bytes),
    /// Of its standard error: words of the runtime or of the guest's interpreter.
    Stderr(Bytes),
}

/// The two ends of an attached container.
pub struct Attached {
    /// Its standard input; dropping it or shutting it down closes it.
    pub input: std::pin::Pin<Box<dyn AsyncWrite + Send>>,
    /// What it writes, until it ends.
    pub output: BoxStream<'static, Result<Output, Error>>,
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").finish_non_exhaustive()
    }
}

/// How a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit status; 128 + n after signal n; -1 where the engine could not tell.
    pub code: i64,
    /// The kernel killed it for memory, as far as the engine knows.
    pub out_of_memory: bool,
}

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
