//! Docker's contexts: named addresses that `docker context use` chooses among.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::address::TlsFiles;
use bridge_common::error::io_reason as reason;
use bridge_common::host::HostEnv;

/// A context, and the engine that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Context {
    /// The name, as in `docker context use NAME`.
    pub(super) name: String,
    /// The address, such as `unix:///home/user/.colima/default/docker.sock`.
    pub(super) host: String,
    /// Certificates, where the context has them.
    pub(super) tls: Option<TlsFiles>,
}

/// The most that is read of one of docker's files.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
struct Config {
    #[serde(rename = "currentContext")]
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "Endpoints")]
    endpoints: Endpoints,
}

#[derive(Deserialize)]
struct Endpoints {
    docker: Option<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(rename = "Host")]
    host: Option<String>,
}

/// The folder of docker's configuration.
pub(super) fn docker_dir(host: &HostEnv) -> Option<PathBuf> {
    match host.variable("DOCKER_CONFIG") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(host.home()?.join(".docker")),
    }
}

/// The context in use; `None` for the default one. The error is the name of the context and what is
/// wrong with it.
pub(super) fn current(host: &HostEnv) -> Result<Option<Context>, (String, String)> {
    let Some(folder) = docker_dir(host) else {
        return Ok(None);
    };
    let name = match host.variable("DOCKER_CONTEXT") {
        Some(name) => name.to_owned(),
        None => match configured(&folder.join("config.json")) {
            Ok(Some(name)) => name,
            Ok(None) => return Ok(None),
            Err(problem) => return Err(("config.json".to_owned(), problem)),
        },
    };
    if name == "default" || name.is_empty() {
        return Ok(None);
    }
    match read_context(&folder, &name) {
        Ok(context) => Ok(Some(context)),
        Err(problem) => Err((name, problem)),
    }
}

fn configured(file: &Path) -> Result<Option<String>, String> {
    match read(file) {
        Ok(bytes) => serde_json::from_slice::<Config>(&bytes)
            .map(|config| config.current_context)
            .map_err(|error| format!("{}: {error}", file.display())),
        // Few machines have the file, and one that cannot be read names no context.
        Err(_) => Ok(None),
    }
}

fn read_context(folder: &Path, name: &str) -> Result<Context, String> {
    let hash = hex::encode(Sha256::digest(name.as_bytes()));
    let file = folder.join("contexts/meta").join(&hash).join("meta.json");
    let bytes = read(&file).map_err(|error| format!("{}: {}", file.display(), reason(&error)))?;
    let meta: Meta =
        serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    let host = meta
        .endpoints
        .docker
        .and_then(|endpoint| endpoint.host)
        .ok_or_else(|| format!("{}: names no docker host", file.display()))?;
    let tls = folder.join("contexts/tls").join(&hash).join("docker");
    let tls = tls.is_dir().then(|| TlsFiles::in_folder(&tls));
    Ok(Context {
        name: name.to_owned(),
        host,
        tls,
    })
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_common::host::HostEnv;

    fn with_context(folder: &Path, config: &str, name: &str, meta: &str) {
        let docker = folder.join("home/.docker");
        let place = docker
            .join("contexts/meta")
            .join(hex::encode(Sha256::digest(name.as_bytes())));
        std::fs::create_dir_all(&place).expect("a folder");
        std::fs::write(docker.join("config.json"), config).expect("written");
        std::fs::write(place.join("meta.json"), meta).expect("written");
    }

    const COLIMA: &str = r#"{"Name":"colima","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///x/docker.sock","SkipTLSVerify":false}}}"#;

    #[test]
    fn chosen_context_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        with_context(
            folder.path(),
            r#"{"currentContext":"colima"}"#,
            "colima",
            COLIMA,
        );
        let context = current(&HostEnv::fake_below(folder.path(), []))
            .expect("readable")
            .expect("one");
        assert_eq!(context.host, "unix:///x/docker.sock");
        assert_eq!(context.tls, None);
    }

    #[test]
    fn variable_wins_and_default_means_none() {
        let folder = tempfile::tempdir().expect("a folder");
        with_context(
            folder.path(),
            r#"{"currentContext":"gone"}"#,
            "colima",
            COLIMA,
        );
        let name = |name| {
            current(&HostEnv::fake_below(
                folder.path(),
                [("DOCKER_CONTEXT", name)],
            ))
        };
        assert_eq!(
            name("colima").expect("readable").expect("one").name,
            "colima"
        );
        assert_eq!(name("default"), Ok(None));
    }

    #[test]
    fn broken_context_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        with_context(
            folder.path(),
            r#"{"currentContext":"gone"}"#,
            "colima",
            COLIMA,
        );
        let (name, problem) =
            current(&HostEnv::fake_below(folder.path(), [])).expect_err("a problem");
        assert_eq!(name, "gone");
        assert!(problem.ends_with("meta.json: no such file"), "{problem}");
    }
}
