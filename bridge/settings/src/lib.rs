//! What the user told the bridge, parsed once: flags over `MCP_BRIDGE_*` variables over
//! `bridge.yaml` over defaults.
//!
//! Owns the one table of settings (`table.rs`). Everything that is known about a setting stands in
//! its item there: name, variable, parser with bounds, default, meaning, and the option type for
//! Nix. Error messages, `--help`, the reference page and the options of the Nix modules are made
//! from it.
//!
//! Entry points: [`Settings::load`] reads all sources, [`check_file`] judges one `bridge.yaml` by
//! itself, [`KEYS`] describes every setting. All problems are reported at once, each with its
//! source.
//!
//! Must never know what a setting is used for: engines, images, sessions and servers are the
//! business of other crates, which see typed values only. Nothing here starts, connects or writes
//! anything, and the environment comes as a [`HostEnv`] and goes on as [`Settings::host`].

mod file;
mod keys;
mod kinds;
mod load;
mod parse;
mod problem;
mod setting;
mod sources;
mod table;

pub use keys::{KEYS, Key, flag_help, help, key, nix_keys};
pub use kinds::NixType;
pub use load::check_file;
pub use parse::{parse_duration, parse_size};
pub use problem::{Error, Problem};
pub use sources::Overrides;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bridge_common::host::HostEnv;

/// Every setting, after parsing and checking.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Which container engine, and how to reach it.
    pub engine: EngineSettings,
    /// Which guest image, and where its archive lies.
    pub image: ImageSettings,
    /// What one guest may use.
    pub limits: Limits,
    /// How long runs and sessions live.
    pub session: SessionSettings,
    /// Server definitions live here, and what is kept where no project has state of its own.
    pub state_dir: PathBuf,
    /// `MCP_BRIDGE_PROJECT`: whose memory, saved tools and project files are used.
    pub project: Project,
    /// How much may be kept.
    pub store: StoreLimits,
    /// How answers are written.
    pub output_mode: OutputMode,
    /// About how many tokens the text of an answer may have, where the call does not say.
    pub output_tokens: u64,
    /// Least severe level that is logged.
    pub log_level: tracing::level_filters::LevelFilter,
    /// `MCP_BRIDGE_ALLOW_SELF_SERVER`: offer a server definition that starts this bridge again.
    pub allow_self_server: bool,
    /// `MCP_SERVERS_CONFIG`: one more file of server definitions.
    pub servers_config: Option<PathBuf>,
    /// Where the command `serve` speaks MCP over HTTP.
    pub http: Option<SocketAddr>,
    /// Holds the bearer token of clients over HTTP.
    pub http_token_file: Option<PathBuf>,
    /// The file that settings came from, where there is one.
    pub file: Option<PathBuf>,
    /// The environment that these settings were read in.
    pub host: HostEnv,
}

/// The most tokens that a call may ask for: more than all of the largest output.
pub const MAX_OUTPUT_TOKENS: u64 = 20_000_000;

/// Which container engine, and how to reach it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineSettings {
    /// `MCP_BRIDGE_RUNTIME`: only this kind of engine.
    pub kind: Option<EngineKind>,
    /// An address given for the bridge alone (`engine_host`); wins over `CONTAINER_HOST` and
    /// `DOCKER_HOST`.
    pub host: Option<String>,
    /// OCI runtime to ask the engine for, such as `crun` or `runsc`.
    pub runtime: Option<String>,
    /// Limits that may be missing where the engine cannot enforce them.
    pub allow_unenforced: BTreeSet<Limit>,
    /// How long a podman machine that the bridge started stays up when unused; zero: for ever.
    pub machine_idle: Duration,
}

/// The two kinds of engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    /// Podman, by its Docker-compatible API.
    Podman,
    /// Docker.
    Docker,
}

/// A limit by name, as in `allow_unenforced: [memory, pids]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Bytes of memory, swap included.
    Memory,
    /// Number of processes and threads.
    Pids,
    /// CPUs.
    Cpus,
}

/// Which guest image, and where its archive lies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImageSettings {
    /// `MCP_BRIDGE_IMAGE`: another image, pinned by digest (`name@sha256:...` or `sha256:...`).
    pub reference: Option<String>,
    /// `MCP_BRIDGE_IMAGE_ARCHIVE`: the archive to load when the engine lacks the image.
    pub archive: Option<PathBuf>,
    /// `MCP_BRIDGE_IMAGE_LOCK`: a lock (with its digests beside it) to use instead of the one built
    /// in.
    pub lock: Option<PathBuf>,
    /// `GUEST_IMAGE_INPUTS`: a folder with the locked inputs.
    pub inputs: Option<PathBuf>,
}

/// What one guest may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes of memory, swap included.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u32,
    /// CPUs, where limited.
    pub cpus: Option<f64>,
    /// Open files per process.
    pub open_files: u32,
    /// Numeric user and group in the container.
    pub user: (u32, u32),
    /// Bytes of `stdout`, and of `stderr`, kept of one run; what is over is counted and dropped.
    pub output_bytes: u64,
}

/// How long runs and sessions live.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSettings {
    /// Time limit of a call that names none.
    pub timeout: Duration,
    /// The longest time limit a call may ask for.
    pub max_timeout: Duration,
    /// The longest time limit of a run that may be left running; at least `max_timeout`.
    pub max_run: Duration,
    /// Time to react to an interrupt before the guest is killed.
    pub grace: Duration,
    /// An unused session ends after this; zero: never.
    pub idle: Duration,
    /// Sessions at once.
    pub max_sessions: usize,
    /// Keep one started, verified guest waiting.
    pub spare: bool,
}

/// Whose memory, saved tools and project files are used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Project {
    /// Everybody's.
    #[default]
    Shared,
    /// Those of the project that the bridge was started in.
    Here,
    /// Those of the project in this folder.
    Folder(PathBuf),
}

/// How much may be kept for later sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of one memory, as JSON.
    pub value_bytes: u64,
    /// Bytes of all memories.
    pub memory_bytes: u64,
    /// Memories.
    pub memories: usize,
    /// Saved tools.
    pub tools: usize,
    /// Bytes of all project files.
    pub file_bytes: u64,
    /// Project files.
    pub files: usize,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputMode {
    /// The output itself, then what else matters.
    #[default]
    Compact,
    /// One fenced TOON block.
    Toon,
}

impl Default for Limits {
    fn default() -> Self {
        load::defaults().0
    }
}

impl Default for StoreLimits {
    fn default() -> Self {
        load::defaults().2
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        load::defaults().1
    }
}

impl EngineKind {
    /// As in `MCP_BRIDGE_RUNTIME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpus];

    /// As in `allow_unenforced`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpus => "cpus",
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
