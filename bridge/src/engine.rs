//! The container engine: found, asked what it can do, and told to run hardened guests.
//!
//! Nothing outside this module sees a Docker API type, so that an engine without that API (an OCI runtime driven
//! directly) can take its place.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::AsyncWrite;

use crate::settings::{EngineKind, Limit, Limits};

/// A container by the engine's own immutable name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(pub String);

/// What the engine is and can enforce.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineReport {
    /// Podman or Docker.
    pub kind: EngineKind,
    /// The engine's version, such as `5.4.2`.
    pub version: String,
    /// The API version agreed on.
    pub api_version: String,
    /// Where it answers, such as `unix:///run/user/1000/podman/podman.sock`.
    pub endpoint: String,
    /// Guests run without root on the host.
    pub rootless: bool,
    /// 1 or 2, where told.
    pub cgroup_version: Option<u8>,
    /// The OCI runtime, such as `crun`.
    pub runtime: String,
    /// The engine's machine: `amd64`, `arm64`.
    pub architecture: String,
    /// Limits that the engine says it cannot enforce.
    pub unenforced: Vec<Limit>,
}

/// What the engine knows of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// The engine's ID: the config digest, or with containerd's store the manifest digest.
    pub id: String,
    /// Digests of the uncompressed layers, in order.
    pub diff_ids: Vec<String>,
    /// `amd64`, `arm64`.
    pub architecture: String,
    /// `linux`.
    pub os: String,
}

/// A hardened guest to create. All hardening that does not vary is the engine's own affair.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSpec {
    /// Immutable image ID.
    pub image_id: String,
    /// What the guest may use.
    pub limits: Limits,
    /// Owner labels and others.
    pub labels: BTreeMap<String, String>,
    /// OCI runtime to ask for.
    pub runtime: Option<String>,
}

/// What the engine says it created.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    /// The container.
    pub id: ContainerId,
    /// The image it was made from.
    pub image_id: String,
    /// Limits asked for that the container does not have.
    pub unenforced: Vec<Limit>,
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

/// How a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit status; 128 + n after signal n.
    pub code: i64,
    /// The kernel killed it for memory, as far as the engine knows.
    pub out_of_memory: bool,
}

/// A container engine. Every call has a deadline of its own.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// What it is and can enforce.
    fn report(&self) -> &EngineReport;
    /// The image of that ID or digest, if it is there.
    async fn image(&self, id: &str) -> Result<Option<ImageFacts>, Error>;
    /// Loads an archive; `sent` is told of each piece's size.
    async fn load_image(
        &self,
        archive: &std::path::Path,
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error>;
    /// The image as an archive, for hashing.
    async fn export_image(
        &self,
        id: &str,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error>;
    /// Creates a hardened container and inspects what was made.
    async fn create(&self, spec: &ContainerSpec) -> Result<Created, Error>;
    /// Attaches to a created container, then starts it: no byte is lost.
    async fn start(&self, id: &ContainerId) -> Result<Attached, Error>;
    /// Waits for the end of a started container.
    async fn wait(&self, id: &ContainerId) -> Result<Exit, Error>;
    /// SIGKILL, then removal. A container that is gone already is no error.
    async fn remove(&self, id: &ContainerId) -> Result<(), Error>;
    /// Removes containers whose owner is dead; returns how many.
    async fn reap(&self) -> Result<usize, Error>;
}

/// What can go wrong with an engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Placeholder until the engine's own variants.
    #[error("the engine did not answer")]
    Unreachable,
}
