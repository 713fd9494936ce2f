//! What an engine is asked for and what it answers, in terms that fit every engine.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::AsyncWrite;

use super::Error;
use bridge_settings::{EngineKind, Limit, Limits};

/// A container, by the engine's own immutable ID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(pub String);

/// Which engine this is; known from its first answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Podman or Docker, as the engine says itself; the name of its socket does not count.
    pub kind: EngineKind,
    /// The engine's version, such as `5.4.2`.
    pub version: String,
    /// The version of the API that both sides use.
    pub api_version: String,
    /// Where the engine answers, such as `unix:///run/user/1000/podman/podman.sock`.
    pub endpoint: String,
    /// What named that address, such as `DOCKER_HOST` or `docker context colima`.
    pub origin: String,
    /// The processor of the engine's machine: `amd64` or `arm64`.
    pub architecture: String,
}

/// What the engine is and can enforce.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineReport {
    /// Which engine this is.
    pub identity: Identity,
    /// Guests run without root on the host.
    pub rootless: bool,
    /// 1 or 2, if the engine says so.
    pub cgroup_version: Option<u8>,
    /// The OCI runtime, such as `crun`.
    pub runtime: String,
    /// Limits that the engine says it cannot enforce.
    pub unenforced: Vec<Limit>,
}

/// What the engine knows about an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageFacts {
    /// The engine's ID: the config digest, or with containerd's store the manifest digest.
    pub id: String,
    /// Digests of the uncompressed layers, in order.
    pub diff_ids: Vec<String>,
    /// The processor: `amd64` or `arm64`.
    pub architecture: String,
    /// The operating system, such as `linux`.
    pub os: String,
    /// Digests of manifests under which it was loaded or pulled, where the engine kept them.
    pub manifests: Vec<String>,
    /// Variables that the image sets, as `NAME=value`.
    pub environment: Vec<String>,
}

/// A hardened guest to create. Hardening that never varies is added by the engine itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSpec {
    /// The immutable ID of the image.
    pub image_id: String,
    /// What the guest may use.
    pub limits: Limits,
    /// Variables that the image sets. Any others, except the engine's own, count as a difference.
    pub environment: Vec<String>,
    /// Labels that name the owner and the session.
    pub labels: BTreeMap<String, String>,
    /// The OCI runtime to ask for, such as `crun`.
    pub runtime: Option<String>,
}

/// The container that the engine says it created, compared with the specification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Created {
    /// The image that the container was made from.
    pub image_id: String,
    /// Limits asked for that the container does not have.
    pub unenforced: Vec<Limit>,
    /// Hardening asked for that the container does not have, in words for people.
    pub differences: Vec<String>,
}

/// A piece of the container's output; pieces are cut anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Standard output: frames.
    Stdout(Bytes),
    /// Standard error: messages of the runtime or of the guest's interpreter.
    Stderr(Bytes),
}

/// The two ends of an attached container.
pub struct Attached {
    /// The container's standard input; dropping it or shutting it down closes it.
    pub input: std::pin::Pin<Box<dyn AsyncWrite + Send>>,
    /// The container's output, until it ends.
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
    /// Whether the kernel killed it for memory, as far as the engine knows.
    pub out_of_memory: bool,
}
