//! Addresses at which an engine may answer, in the order in which they are tried.

use std::path::PathBuf;

use super::address::{Address, TlsFiles};
use super::contexts;
use bridge_common::host::HostEnv;
use bridge_settings::{EngineKind, EngineSettings};

/// An address to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Which engine is expected; only its answer says which it is.
    pub(crate) kind: Option<EngineKind>,
    /// Where to connect, or why the text is not an address.
    pub(crate) address: Result<Address, String>,
    /// The address as it was given.
    pub(crate) text: String,
    /// What named the address; `None` for a usual place.
    pub(crate) origin: Option<String>,
    /// The user asked for this very address: if it does not answer, no other is tried.
    pub(crate) explicit: bool,
}

/// All addresses to try, in order.
pub(crate) fn candidates(host: &HostEnv, settings: &EngineSettings) -> Vec<Candidate> {
    let mut found = Vec::new();
    if let Some(address) = &settings.host {
        found.push(named(address, None, "engine_host", settings.kind));
    }
    let podman = settings.kind != Some(EngineKind::Docker);
    let docker = settings.kind != Some(EngineKind::Podman);
    if podman && let Some(address) = host.variable("CONTAINER_HOST") {
        found.push(named(
            address,
            None,
            "CONTAINER_HOST",
            Some(EngineKind::Podman),
        ));
    }
    // Docker's variable names podman's socket on many machines, so it counts whichever engine is
    // asked for; but where podman is asked for, it may well be about something else.
    if let Some(address) = host.variable("DOCKER_HOST") {
        let mut candidate = named(
            address,
            tls_of_variables(host),
            "DOCKER_HOST",
            settings.kind,
        );
        candidate.explicit = docker;
        found.push(candidate);
    } else if docker {
        found.extend(context(host));
    }
    if found.iter().any(|candidate| candidate.explicit) {
        found.retain(|candidate| candidate.explicit);
        return found;
    }
    if podman {
        found.extend(podman_sockets(host));
    }
    if docker {
        found.extend(docker_sockets(host));
    }
    // A context often names a usual place; one attempt is enough.
    let mut seen = Vec::new();
    found.retain(|candidate| {
        let new = !seen.contains(&candidate.address);
        seen.push(candidate.address.clone());
        new
    });
    found
}

fn named(host: &str, tls: Option<TlsFiles>, origin: &str, kind: Option<EngineKind>) -> Candidate {
    Candidate {
        kind,
        address: Address::parse(host, tls),
        text: host.to_owned(),
        origin: Some(origin.to_owned()),
        explicit: true,
    }
}

fn tls_of_variables(host: &HostEnv) -> Option<TlsFiles> {
    host.variable("DOCKER_TLS_VERIFY")?;
    let folder = match host.variable("DOCKER_CERT_PATH") {
        Some(folder) => PathBuf::from(folder),
        None => contexts::docker_dir(host)?,
    };
    Some(TlsFiles::in_folder(&folder))
}

/// The chosen docker context. Chosen for the docker command and not for the bridge, it is tried
/// first and not alone, unless `DOCKER_CONTEXT` names it.
fn context(host: &HostEnv) -> Option<Candidate> {
    let explicit = host.variable("DOCKER_CONTEXT").is_some();
    let (name, address, text) = match contexts::current(host) {
        Ok(None) => return None,
        Ok(Some(context)) => (
            context.name,
            Address::parse(&context.host, context.tls),
            context.host,
        ),
        Err((name, problem)) => (name, Err(problem), String::new()),
    };
    Some(Candidate {
        kind: Some(EngineKind::Docker),
        address,
        text,
        origin: Some(format!("docker context {name}")),
        explicit,
    })
}

fn podman_sockets(host: &HostEnv) -> Vec<Candidate> {
    let mut search_paths = Vec::new();
    if let Some(folder) = host.runtime_dir().folder {
        search_paths.push(folder.join("podman/podman.sock"));
    }
    let usual = host.at(&format!("/run/user/{}/podman/podman.sock", host.uid()));
    if host.uid() != 0 && !search_paths.contains(&usual) {
        search_paths.push(usual);
    }
    search_paths.push(host.at("/run/podman/podman.sock"));
    search_paths
        .into_iter()
        .map(|path| usual_place(EngineKind::Podman, path))
        .collect()
}

fn docker_sockets(host: &HostEnv) -> Vec<Candidate> {
    let mut search_paths = vec![host.at("/var/run/docker.sock")];
    let mut perhaps = Vec::new();
    if let Some(folder) = host.runtime_dir().folder {
        perhaps.push(folder.join("docker.sock"));
    }
    if let Some(home) = host.home() {
        for path in [
            ".docker/run/docker.sock",
            ".docker/desktop/docker.sock",
            ".colima/default/docker.sock",
            ".config/colima/default/docker.sock",
            ".rd/docker.sock",
            ".orbstack/run/docker.sock",
            ".lima/docker/sock/docker.sock",
        ] {
            perhaps.push(home.join(path));
        }
    }
    // SearchPaths of products that few have are not worth a line in an error.
    search_paths.extend(perhaps.into_iter().filter(|path| path.exists()));
    search_paths
        .into_iter()
        .map(|path| usual_place(EngineKind::Docker, path))
        .collect()
}

fn usual_place(kind: EngineKind, path: PathBuf) -> Candidate {
    Candidate {
        kind: Some(kind),
        text: path.display().to_string(),
        address: Ok(Address::Unix(path)),
        origin: None,
        explicit: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_common::host::HostEnv;

    fn texts(variables: &[(&'static str, &str)], kind: Option<EngineKind>) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = folder.path().join("runtime");
        std::fs::create_dir_all(&runtime).expect("a folder");
        std::fs::create_dir_all(folder.path().join("home/.colima/default")).expect("a folder");
        std::fs::write(folder.path().join("home/.colima/default/docker.sock"), "").expect("made");
        let runtime = runtime.to_string_lossy();
        let mut all = vec![("XDG_RUNTIME_DIR", &*runtime)];
        all.extend(variables);
        let host = HostEnv::fake_below(folder.path(), all);
        let settings = EngineSettings {
            kind,
            ..EngineSettings::default()
        };
        candidates(&host, &settings)
            .into_iter()
            .map(|candidate| {
                candidate
                    .text
                    .replace(&*folder.path().to_string_lossy(), "")
            })
            .filter(|text| !text.starts_with("/run/user/"))
            .collect()
    }

    #[test]
    fn podman_comes_first_among_usual_places() {
        assert_eq!(
            texts(&[], None),
            [
                "/runtime/podman/podman.sock",
                "/run/podman/podman.sock",
                "/var/run/docker.sock",
                "/home/.colima/default/docker.sock",
            ]
        );
        assert_eq!(
            texts(&[], Some(EngineKind::Docker)),
            ["/var/run/docker.sock", "/home/.colima/default/docker.sock"]
        );
    }

    #[test]
    fn address_that_was_asked_for_is_the_only_candidate() {
        let variables = [
            ("DOCKER_HOST", "tcp://a:1"),
            ("CONTAINER_HOST", "unix:///p"),
        ];
        assert_eq!(texts(&variables, None), ["unix:///p", "tcp://a:1"]);
        assert_eq!(texts(&variables, Some(EngineKind::Docker)), ["tcp://a:1"]);
        let podman = texts(&variables[..1], Some(EngineKind::Podman));
        assert_eq!(podman[..2], ["tcp://a:1", "/runtime/podman/podman.sock"]);
    }
}
