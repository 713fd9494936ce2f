//! The real Python runtime as a local process: no container, no engine, all else as it is.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio_util::io::ReaderStream;

use super::super::{Guest, Launch, LaunchError, Progress};
use super::scripted::gone;
use bridge_engine::{self as engine, Attached, Exit, Output};
use bridge_wire::GuestReport;

/// Starts `python3` on the runtime in this repository.
#[derive(Default)]
pub(super) struct Local {
    launched: AtomicUsize,
    /// Where the project files of guests lie, each in a folder of its own.
    projects: Option<PathBuf>,
}

impl Local {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Guests that have project files.
    pub(super) fn with_projects(folder: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            projects: Some(folder),
            ..Self::default()
        })
    }

    pub(super) fn launched(&self) -> usize {
        self.launched.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Launch for Local {
    async fn launch(
        &self,
        _: Option<&str>,
        _: &dyn Progress,
    ) -> Result<Box<dyn Guest>, LaunchError> {
        let number = self.launched.fetch_add(1, Ordering::SeqCst);
        let projects = match &self.projects {
            Some(folder) => folder.join(number.to_string()),
            None => PathBuf::from("/nonexistent"),
        };
        if self.projects.is_some() {
            std::fs::create_dir_all(&projects).unwrap();
        }
        let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-image");
        let child = Command::new("python3")
            .args(["-B", "-I", "-S"])
            .arg(below.join("runtime-tests/site-packages/older_python.py"))
            .arg(below.join("runtime/entry.py"))
            .env("MCP_GUEST_PROJECTS", projects)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Ok(Box::new(Process(child)))
    }
}

struct Process(Child);

impl Process {
    /// In a container the kernel kills everybody with PID 1; here that is ours to do.
    fn kill_worker(&self) {
        let Some(init) = self.0.id() else { return };
        let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            if let Some(pid) = child.parse().ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

#[async_trait]
impl Guest for Process {
    fn attach(&mut self) -> Option<Attached> {
        let stdout = ReaderStream::new(self.0.stdout.take()?).map_ok(Output::Stdout);
        let stderr = ReaderStream::new(self.0.stderr.take()?).map_ok(Output::Stderr);
        Some(Attached {
            input: Box::pin(self.0.stdin.take()?),
            output: stream::select(stdout, stderr).map_err(|_| gone()).boxed(),
        })
    }

    fn check(&self, _: &GuestReport) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn exit(&mut self) -> Result<Exit, engine::Error> {
        let status = self.0.wait().await.map_err(|_| gone())?;
        Ok(Exit {
            code: code(status),
            out_of_memory: false,
        })
    }

    async fn kill(&mut self) {
        self.kill_worker();
        let _ = self.0.kill().await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_worker();
    }
}

fn code(status: ExitStatus) -> i64 {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal().map(|signal| 128 + signal);
    i64::from(status.code().or(signal).unwrap_or(-1))
}
