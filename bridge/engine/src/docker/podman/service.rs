//! `podman system service`, run by the bridge on a socket of its own.
//!
//! It must end with the bridge, however the bridge ends: by SIGTERM when the bridge ends in good
//! order, by the kernel's parent-death signal when it is killed, and by podman's own idle timeout
//! where neither works.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::watch;

use bridge_common::error::io_reason as reason;
use bridge_common::host::HostEnv;

/// Seconds without a connection after which podman ends its service: an attached guest counts as
/// one.
const IDLE_SECONDS: &str = "60";
/// How long the service has to start listening; the very first start of podman creates its storage.
const LISTENS: Duration = Duration::from_secs(30);
/// How long the service has to end after SIGTERM.
const ENDS: Duration = Duration::from_secs(3);
/// How many bytes of its standard error are kept.
const MAX_WORDS: usize = 4 << 10;
/// The beginning of the folders' names; the bridge's pid follows.
const PREFIX: &str = "mcp-code-bridge-";

/// A running service; ended when dropped.
pub(crate) struct Service {
    socket: PathBuf,
    process: Arc<Mutex<Option<Pid>>>,
    ended: watch::Receiver<Option<String>>,
    folder: TempDir,
}

impl Service {
    /// Starts the service and waits until it listens; the error is a reason in few words.
    pub(crate) async fn start(program: &Path, host: &HostEnv) -> Result<Self, String> {
        let runtime = host.runtime_dir();
        let base = runtime
            .folder
            .clone()
            .unwrap_or_else(|| host.temporary().to_owned());
        remove_abandoned(&base).await;
        let folder = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .tempdir_in(&base)
            .map_err(|error| format!("{}: {}", base.display(), reason(&error)))?;
        let socket = folder.path().join("podman.sock");
        let mut command = command(program, host, &socket);
        match &runtime.folder {
            Some(folder) => command.env("XDG_RUNTIME_DIR", folder),
            // Another user's folder is worse than none: podman would fail on it.
            None => command.env_remove("XDG_RUNTIME_DIR"),
        };
        let process = Arc::new(Mutex::new(None));
        let (tell, ended) = watch::channel(None);
        // The parent-death signal comes when the *thread* that started the process ends, so it gets
        // one that stays.
        let held = process.clone();
        let (started, start) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name("podman-service".to_owned())
            .spawn(move || {
                let child = command.spawn();
                let child = match child {
                    Ok(child) => child,
                    Err(error) => {
                        let _ = started.send(Err(reason(&error)));
                        return;
                    }
                };
                *lock(&held) = Pid::from_raw(child.id().cast_signed());
                let _ = started.send(Ok(()));
                let words = attend(child, &held);
                let _ = tell.send(Some(words));
            })
            .map_err(|error| reason(&error))?;
        start.await.map_err(|_| "its thread ended".to_owned())??;
        let mut service = Self {
            socket,
            process,
            ended,
            folder,
        };
        service.listens().await?;
        Ok(service)
    }

    /// The socket that the service listens on.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder of the socket, which is removed with the service.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    async fn listens(&mut self) -> Result<(), String> {
        let socket = self.socket.clone();
        let connects = async {
            while UnixStream::connect(&socket).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = connects => Ok(()),
            words = ended(&mut self.ended) => Err(format!("ended at once: {words}")),
            () = tokio::time::sleep(LISTENS) => {
                Err(format!("does not listen after {} s", LISTENS.as_secs()))
            }
        }
    }

    /// Ends the service and waits until it is gone.
    pub(crate) async fn end(mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(ENDS, ended(&mut self.ended))
            .await
            .is_err()
        {
            self.signal(Signal::KILL);
            let _ = tokio::time::timeout(ENDS, ended(&mut self.ended)).await;
        }
    }

    fn signal(&self, signal: Signal) {
        // Held while signalling: as long as the number stands there, the process has not been
        // reaped.
        if let Some(process) = *lock(&self.process) {
            let _ = kill_process_group(process, signal);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
    }
}

fn lock(process: &Mutex<Option<Pid>>) -> std::sync::MutexGuard<'_, Option<Pid>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ended(receiver: &mut watch::Receiver<Option<String>>) -> String {
    match receiver.wait_for(Option::is_some).await {
        Ok(words) => words.clone().unwrap_or_default(),
        Err(_) => String::new(),
    }
}

fn command(program: &Path, host: &HostEnv, socket: &Path) -> Command {
    let setpriv = host
        .find_program("setpriv")
        .filter(|_| cfg!(target_os = "linux"));
    // The search path may have folders that are relative to where the bridge is.
    let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    let mut command = match setpriv.map(std::path::absolute) {
        Some(Ok(setpriv)) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "TERM", "--"]).arg(program);
            command
        }
        _ => Command::new(program),
    };
    if let Some(folder) = socket.parent() {
        // Podman's helpers write files where they are (conmon one named `oom`), which must not be
        // the user's folder.
        command.current_dir(folder);
    }
    command
        .args(["system", "service", "--time", IDLE_SECONDS])
        .arg(format!("unix://{}", socket.display()))
        .env("PATH", host.search_path())
        // Its own group: a terminal's interrupt is for the bridge, which ends it in good order.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Reads the process's standard error until it ends; returns the last line.
fn attend(mut child: Child, process: &Mutex<Option<Pid>>) -> String {
    let mut words = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let mut piece = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut piece) {
            words.extend_from_slice(&piece[..count]);
            let over = words.len().saturating_sub(MAX_WORDS);
            words.drain(..over);
        }
    }
    if let Some(pid) = *lock(process) {
        // Without reaping, so that the number cannot become another process's before it is
        // forgotten.
        let _ = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        );
    }
    *lock(process) = None;
    let status = child
        .wait()
        .map_or_else(|error| error.to_string(), |status| status.to_string());
    let words = String::from_utf8_lossy(&words);
    match words.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().to_owned(),
        None => status,
    }
}

/// Removes folders of killed bridges: those whose process is gone and whose socket does not answer.
async fn remove_abandoned(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten().take(10_000) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some(pid) = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'))
            .and_then(|(pid, _)| pid.parse::<u32>().ok())
        else {
            continue;
        };
        let folder = entry.path();
        if crate::owner::is_alive(pid)
            || UnixStream::connect(folder.join("podman.sock"))
                .await
                .is_ok()
        {
            continue;
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_common::host::HostEnv;

    /// A podman that does as `script` says.
    fn fake(root: &Path, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let program = root.join("podman");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("executable");
        program
    }

    #[tokio::test]
    async fn failed_service_says_why() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("tmp")).expect("a folder");
        let host = HostEnv::fake_below(root.path(), [("PATH", "/usr/bin:/bin")]).as_user(0);
        let program = fake(
            root.path(),
            "echo 'Error: cannot find newuidmap' >&2; exit 125",
        );
        let problem = Service::start(&program, &host).await.err();
        let problem = problem.expect("a problem");
        assert_eq!(problem, "ended at once: Error: cannot find newuidmap");
        let left = std::fs::read_dir(root.path().join("tmp"))
            .expect("readable")
            .count();
        assert_eq!(left, 0, "its folder is gone");
    }

    #[tokio::test]
    async fn service_runs_in_a_folder_of_its_own() {
        let root = tempfile::tempdir().expect("a folder");
        let temporary = root.path().join("tmp");
        std::fs::create_dir_all(&temporary).expect("a folder");
        let host = HostEnv::fake_below(root.path(), [("PATH", "/usr/bin:/bin")]).as_user(0);
        let program = fake(root.path(), "touch oom; pwd -P >&2; exit 1");
        let problem = Service::start(&program, &host).await.err();
        let problem = problem.expect("a problem");
        let within = temporary.canonicalize().expect("there").join(PREFIX);
        let expected = format!("ended at once: {}", within.display());
        assert!(problem.starts_with(&expected), "{problem}");
        assert_eq!(std::fs::read_dir(&temporary).expect("readable").count(), 0);
    }

    #[tokio::test]
    async fn folders_of_killed_bridges_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let dead = root.path().join("mcp-code-bridge-4194303-x");
        let alive = root
            .path()
            .join(format!("mcp-code-bridge-{}-x", std::process::id()));
        let other = root.path().join("mcp-code-bridge-0");
        for folder in [&dead, &alive, &other] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        remove_abandoned(root.path()).await;
        assert_eq!(
            (dead.exists(), alive.exists(), other.exists()),
            (false, true, true)
        );
    }
}
