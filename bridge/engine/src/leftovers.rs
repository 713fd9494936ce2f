//! What a killed bridge leaves on an engine, and its removal by another process.
//!
//! A guest that runs ends by itself when its bridge dies, because its input closes. A container
//! that was created and not yet started does not, and no engine can be told to end it: so the
//! bridge's guardian removes it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bridge_common::host::HostEnv;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::Owner;
use super::docker::{Address, DockerEngine, connect};

/// Pauses before each look after the bridge's end: what it had just asked for may be on its way,
/// for seconds on a busy engine.
const LOOKS: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_millis(150),
    Duration::from_millis(350),
    Duration::from_millis(500),
    Duration::from_millis(600),
    Duration::from_millis(900),
    Duration::from_millis(1400),
];

/// Whose containers are to be removed, and from which engine; a line of JSON to the guardian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ContainerOwner {
    pub(super) endpoint: String,
    pub(super) instance: String,
    /// The folder of a podman service that ends with the bridge.
    pub(super) service: Option<PathBuf>,
}

/// Removes the containers of `owners`, each as
/// [`Finder::container_owner`](super::Finder::container_owner) wrote it. Takes seconds; called
/// after the end of the bridge that owned them.
pub fn remove_leftovers(host: &HostEnv, owners: &[String]) {
    let owners: Vec<ContainerOwner> = owners
        .iter()
        .filter_map(|text| serde_json::from_str(text).ok())
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    if let Ok(runtime) = runtime {
        let removals = owners.iter().map(|owner| remove(host, owner));
        runtime.block_on(join_all(removals));
    }
}

async fn remove(host: &HostEnv, owner: &ContainerOwner) {
    let Ok(address) = Address::parse(&owner.endpoint, None) else {
        return;
    };
    let podman = owner
        .service
        .as_ref()
        .and_then(|_| host.find_program("podman"));
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        let by_api = match connect(&address, "guardian").await {
            Ok(connection) => match DockerEngine::new(connection, host) {
                Ok(engine) => engine.remove_all_of(&owner.instance).await.is_ok(),
                Err(_) => return,
            },
            Err(_) => false,
        };
        // The service that the bridge had started ends with it; podman itself does not need it.
        if !by_api && let Some(podman) = &podman {
            remove_by_command(podman, host, &owner.instance).await;
        }
    }
    if let Some(folder) = &owner.service {
        let _ = std::fs::remove_dir_all(folder);
    }
}

async fn remove_by_command(podman: &Path, host: &HostEnv, instance: &str) {
    let command = |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(podman);
        command
            .args(arguments)
            .env("PATH", host.search_path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        match host.runtime_dir().folder {
            Some(folder) => command.env("XDG_RUNTIME_DIR", folder),
            None => command.env_remove("XDG_RUNTIME_DIR"),
        };
        command.output()
    };
    let filter = format!("label={}", Owner::instance_label(instance));
    let Ok(listed) = command(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter]).await
    else {
        return;
    };
    let listed = String::from_utf8_lossy(&listed.stdout);
    for id in listed.split_whitespace() {
        let _ = command(&["rm", "--force", "--time", "0", id]).await;
    }
}
