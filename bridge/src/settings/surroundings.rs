//! What the environment says besides our own variables: home, search path, and where engines are said to be.
//!
//! Taken once with the settings, so that the engine search is a function of plain values and can be tested.

use std::ffi::OsString;
use std::path::PathBuf;

use super::load::Variables;

/// The parts of the environment that the bridge reads. Empty variables count as unset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The home directory: `HOME`, else what the user database says.
    pub home: Option<PathBuf>,
    /// `PATH`.
    pub path: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, else `~/.config`.
    pub config_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`, else `~/.cache`.
    pub cache_home: Option<PathBuf>,
    /// `CONTAINER_HOST`: podman's address.
    pub container_host: Option<String>,
    /// `DOCKER_HOST`: docker's address.
    pub docker_host: Option<String>,
    /// `DOCKER_CONTEXT`: the docker context to use.
    pub docker_context: Option<String>,
    /// `DOCKER_CONFIG`, else `~/.docker`: where docker contexts are kept.
    pub docker_config: Option<PathBuf>,
    /// `DOCKER_TLS_VERIFY` is set: speak TLS to a `tcp://` address.
    pub docker_tls_verify: bool,
    /// `DOCKER_CERT_PATH`: where the keys for that are.
    pub docker_cert_path: Option<PathBuf>,
}

impl Surroundings {
    /// Reads them from `variables`.
    pub fn read(variables: &Variables) -> Self {
        let path = |name: &str| variables.raw(name).map(PathBuf::from);
        let text = |name: &str| {
            variables
                .raw(name)
                .and_then(|value| value.into_string().ok())
        };
        let home = path("HOME").or_else(|| variables.user_home());
        let under_home = |part: &str| home.as_ref().map(|home| home.join(part));
        Self {
            path: variables.raw("PATH"),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            config_home: path("XDG_CONFIG_HOME").or_else(|| under_home(".config")),
            cache_home: path("XDG_CACHE_HOME").or_else(|| under_home(".cache")),
            container_host: text("CONTAINER_HOST"),
            docker_host: text("DOCKER_HOST"),
            docker_context: text("DOCKER_CONTEXT"),
            docker_config: path("DOCKER_CONFIG").or_else(|| under_home(".docker")),
            docker_tls_verify: variables.raw("DOCKER_TLS_VERIFY").is_some(),
            docker_cert_path: path("DOCKER_CERT_PATH"),
            home,
        }
    }
}
