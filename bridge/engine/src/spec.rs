//! What an engine is asked for and what it answers, in terms that every engine has.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::AsyncWrite;

use super::Error;
use bridge_settings::{EngineKind, Limit, Limits};

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
