//! The virtual machine that podman runs in on macOS and Windows, or on Linux where somebody made
//! one.
//!
//! Started when it is stopped, and stopped again only if the bridge started it and nothing runs in
//! it any more. What the user chose for it, such as rootless, stays as it is.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use bridge_common::error::io_reason as reason;
use bridge_common::host::HostEnv;

/// The time limit of a question to podman.
const QUESTION: Duration = Duration::from_secs(20);
/// The time limit of a boot.
const START: Duration = Duration::from_secs(300);
/// The time limit of a shutdown.
const STOP: Duration = Duration::from_secs(120);

/// A podman machine that exists, running or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    program: PathBuf,
    search_path: std::ffi::OsString,
    /// The name, as in `podman machine start NAME`.
    pub(crate) name: String,
    /// The socket on the host's side.
    pub(crate) socket: PathBuf,
    /// Whether it runs.
    pub(crate) running: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    name: String,
    #[serde(default)]
    default: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    connection_info: ConnectionInfo,
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConnectionInfo {
    podman_socket: Option<Socket>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Socket {
    path: PathBuf,
}

impl Machine {
    /// The machine that `CONTAINER_CONNECTION` names, or the default one.
    pub(crate) async fn find(program: &Path, host: &HostEnv) -> Result<Option<Self>, String> {
        let named = host.variable("CONTAINER_CONNECTION");
        if !worth_asking(host, named.is_some()) {
            return Ok(None);
        }
        let search_path = host.search_path();
        let run = |arguments: Vec<String>| run(program, &search_path, arguments, QUESTION);
        let answer = run(words(&["machine", "list", "--format", "json"])).await?;
        let listed: Vec<Listed> = read(&answer)?;
        let wanted = |machine: &&Listed| match named {
            // A rootful connection is the same machine's.
            Some(name) => machine.name.trim_end_matches('*') == name.trim_end_matches("-root"),
            None => machine.default,
        };
        let Some(machine) = listed
            .iter()
            .find(wanted)
            .or(match (named, listed.as_slice()) {
                (None, [only]) => Some(only),
                _ => None,
            })
        else {
            return Ok(None);
        };
        let name = machine.name.trim_end_matches('*').to_owned();
        let answer = run(words(&["machine", "inspect", &name])).await?;
        let inspected: Vec<Inspected> = read(&answer)?;
        let Some(inspected) = inspected.into_iter().next() else {
            return Ok(None);
        };
        let socket = inspected.connection_info.podman_socket;
        let Some(socket) = socket.map(|socket| socket.path) else {
            return Err(format!("machine {name} has no socket on the host's side"));
        };
        Ok(Some(Self {
            program: program.to_owned(),
            running: inspected.state.eq_ignore_ascii_case("running"),
            search_path,
            name,
            socket,
        }))
    }

    /// Boots the machine and waits for it.
    pub(crate) async fn start(&self) -> Result<(), String> {
        let arguments = words(&["machine", "start", &self.name]);
        run(&self.program, &self.search_path, arguments, START)
            .await
            .map(drop)
    }

    /// Shuts the machine down and waits for it.
    pub(crate) async fn stop(&self) -> Result<(), String> {
        let arguments = words(&["machine", "stop", &self.name]);
        run(&self.program, &self.search_path, arguments, STOP)
            .await
            .map(drop)
    }
}

/// Whether this machine may have a podman machine at all: asking podman takes a while.
fn worth_asking(host: &HostEnv, named: bool) -> bool {
    let made = host
        .home()
        .is_some_and(|home| home.join(".config/containers/podman/machine").is_dir());
    !cfg!(target_os = "linux") || named || made
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn read<T: serde::de::DeserializeOwned>(answer: &[u8]) -> Result<T, String> {
    serde_json::from_slice(answer).map_err(|error| format!("its answer cannot be read: {error}"))
}

async fn run(
    program: &Path,
    search_path: &std::ffi::OsStr,
    arguments: Vec<String>,
    after: Duration,
) -> Result<Vec<u8>, String> {
    let asked = format!("podman {}", arguments.join(" "));
    let child = Command::new(program)
        .args(arguments)
        .env("PATH", search_path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{asked}: {}", reason(&error)))?;
    let output = match tokio::time::timeout(after, child.wait_with_output()).await {
        Err(_) => return Err(format!("{asked}: not done after {} s", after.as_secs())),
        Ok(Err(error)) => return Err(format!("{asked}: {}", reason(&error))),
        Ok(Ok(output)) => output,
    };
    if output.status.success() {
        return Ok(output.stdout);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().rfind(|line| !line.trim().is_empty());
    Err(format!(
        "{asked}: {}",
        last.map_or_else(|| output.status.to_string(), str::to_owned)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_common::host::HostEnv;

    /// A podman with one stopped machine, which notes what it is told.
    const SCRIPT: &str = r#"#!/bin/sh
echo "$@" >> "$(dirname "$0")/told"
case "$2" in
list) echo '[{"Name":"podman-machine-default*","Default":true,"Running":false},{"Name":"other","Default":false}]' ;;
inspect) echo '[{"Name":"x","State":"stopped","ConnectionInfo":{"PodmanSocket":{"Path":"/x/api.sock"}},"Rootful":false}]' ;;
start) echo "Error: no hypervisor" >&2; exit 125 ;;
esac
"#;

    fn fake(root: &Path) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let program = root.join("podman");
        std::fs::write(&program, SCRIPT).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("executable");
        program
    }

    #[tokio::test]
    async fn default_machine_is_found_and_never_changed() {
        let root = tempfile::tempdir().expect("a folder");
        let program = fake(root.path());
        let made = root.path().join("home/.config/containers/podman/machine");
        std::fs::create_dir_all(made).expect("a folder");
        let host = HostEnv::fake_below(root.path(), [("PATH", "/usr/bin:/bin")]);
        let machine = Machine::find(&program, &host)
            .await
            .expect("asked")
            .expect("one");
        assert_eq!(machine.name, "podman-machine-default");
        assert_eq!(
            (machine.running, machine.socket.as_path()),
            (false, Path::new("/x/api.sock"))
        );
        let problem = machine.start().await.expect_err("refused");
        assert_eq!(
            problem,
            "podman machine start podman-machine-default: Error: no hypervisor"
        );
        machine.stop().await.expect("stopped");
        let told = std::fs::read_to_string(root.path().join("told")).expect("noted");
        assert_eq!(
            told.lines().collect::<Vec<_>>(),
            [
                "machine list --format json",
                "machine inspect podman-machine-default",
                "machine start podman-machine-default",
                "machine stop podman-machine-default",
            ]
        );
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn on_linux_podman_is_not_asked_for_machines_nobody_made() {
        let root = tempfile::tempdir().expect("a folder");
        let program = fake(root.path());
        let host = HostEnv::fake_below(root.path(), []);
        assert_eq!(Machine::find(&program, &host).await, Ok(None));
        assert!(!root.path().join("told").exists());
    }
}
