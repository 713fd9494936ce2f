//! A second process of the bridge that outlives it by seconds, to remove what a killed bridge could not.
//!
//! A guest that runs ends by itself when its bridge goes; one that was created and not yet started does not, and no engine
//! can be told to end it. The sweeper waits for the end of a pipe that only the bridge holds open: the kernel closes it,
//! however the bridge dies. Told that all is in order, it ends without a look.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::time::Duration;

use super::candidates::Address;
use super::connect::connect;
use super::{Owner, api::ApiEngine};
use bridge_common::host::HostEnv;

/// The argument that makes a bridge a sweeper.
const FLAG: &str = "--sweep-after-bridge";
/// What a bridge says that ends in good order.
const IN_ORDER: u8 = b'.';
/// Pauses between looks after the bridge's end: what it had just asked for may be on its way, for seconds on a busy engine.
const LOOKS: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_millis(150),
    Duration::from_millis(350),
    Duration::from_millis(500),
    Duration::from_millis(600),
    Duration::from_millis(900),
    Duration::from_millis(1400),
];

/// The bridge's end of a sweeper.
pub(super) struct Sweeper {
    pipe: Option<ChildStdin>,
}

/// What a sweeper is told.
pub(super) struct Task<'a> {
    /// The bridge's own executable.
    pub(super) program: &'a Path,
    /// Where the engine answers.
    pub(super) endpoint: &'a str,
    /// Whose containers.
    pub(super) owner: &'a Owner,
    /// The folder of a podman service that ends with the bridge.
    pub(super) service: Option<&'a Path>,
}

impl Sweeper {
    /// Starts one; a bridge without one works all the same.
    pub(super) fn start(task: &Task<'_>) -> Option<Self> {
        let mut command = Command::new(task.program);
        command
            .arg(FLAG)
            .arg(task.endpoint)
            .arg(task.owner.instance())
            .args(task.service)
            // Its own group: what a terminal sends to the bridge's is not for it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                let pipe = child.stdin.take();
                // Reaped whenever it ends; nobody waits for it.
                std::thread::spawn(move || child.wait());
                Some(Self { pipe })
            }
            Err(error) => {
                tracing::warn!(%error, "no sweeper: a killed bridge may leave a container behind");
                None
            }
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // It may have been killed; then there is nobody to tell.
            let _ = pipe.write_all(&[IN_ORDER]);
        }
    }
}

/// Runs as a sweeper if the arguments say so.
pub fn run_if_asked(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != *FLAG {
        return None;
    }
    let endpoint = arguments.next()?.into_string().ok()?;
    let instance = arguments.next()?.into_string().ok()?;
    let service = arguments.next().map(PathBuf::from);
    let mut said = Vec::new();
    let in_order = std::io::stdin().read_to_end(&mut said).is_ok() && said == [IN_ORDER];
    if in_order {
        return Some(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    if let (Ok(runtime), Ok(address)) = (runtime, Address::parse(&endpoint, None)) {
        runtime.block_on(sweep(&address, &instance, service.as_deref()));
    }
    Some(ExitCode::SUCCESS)
}

async fn sweep(address: &Address, instance: &str, service: Option<&Path>) {
    let host = HostEnv::of_process();
    let podman = service.and_then(|_| host.find_program("podman"));
    for look in LOOKS {
        tokio::time::sleep(look).await;
        let by_api = match connect(address, "sweeper").await {
            Ok(connection) => match ApiEngine::new(connection, &host) {
                Ok(engine) => engine.remove_all_of(instance).await.is_ok(),
                Err(_) => return,
            },
            Err(_) => false,
        };
        // The service that the bridge had started ends with it; podman itself does not need it.
        if !by_api && let Some(podman) = &podman {
            remove_by_command(podman, &host, instance).await;
        }
    }
    if let Some(folder) = service {
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
