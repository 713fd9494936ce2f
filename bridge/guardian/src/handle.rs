//! The bridge's end of the pipe.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

use super::protocol::{Guarded, Line};

/// Tells the guardian what to clean up. Cheap to clone; the process ends when the last clone is
/// dropped or the bridge dies.
#[derive(Debug, Clone)]
pub struct Guardian(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    command: Vec<OsString>,
    input: Option<ChildStdin>,
    guarded: Guarded,
    /// The process could not be started, and that was said.
    gave_up: bool,
}

impl Guardian {
    /// A guardian that runs as `command`, which must call [`run`](super::run). It is started when
    /// there is something to guard.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self(Arc::new(Mutex::new(State {
            command: command.into_iter().map(Into::into).collect(),
            input: None,
            guarded: Guarded::default(),
            gave_up: false,
        })))
    }

    /// Containers of `owner` may exist from now on, and are removed with the bridge. The text has a
    /// meaning only for whoever removes them; it must not contain a line break.
    pub fn guard_containers(&self, owner: String) {
        self.tell(Line::ContainerOwner(owner));
    }

    /// Every container that was being made is known to be gone: nothing is left to remove.
    pub fn containers_in_order(&self) {
        self.tell(Line::InOrder);
    }

    /// From now on `group` is killed with the bridge.
    pub fn guard_group(&self, group: Pid) {
        self.tell(Line::GroupStarted(group));
    }

    /// The processes of `group` have ended.
    pub fn group_ended(&self, group: Pid) {
        self.tell(Line::GroupEnded(group));
    }

    fn tell(&self, line: Line) {
        self.state().tell(line);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&mut self, line: Line) {
        let text = line.to_string();
        self.guarded.apply(line);
        // A few bytes into a pipe that is read at once: never blocks for long.
        if let Some(input) = &mut self.input {
            if input.write_all(text.as_bytes()).is_ok() {
                return;
            }
            tracing::warn!("the guardian was killed; starting another one");
            self.input = None;
        }
        if self.guarded.is_empty() || self.gave_up {
            return;
        }
        match self.start() {
            Ok(input) => self.input = Some(input),
            Err(error) => {
                self.gave_up = true;
                tracing::warn!(
                    %error,
                    "cannot start the guardian; a killed bridge may leave containers and servers behind"
                );
            }
        }
    }

    /// Starts the process and tells it everything.
    fn start(&self) -> io::Result<ChildStdin> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Its own group, so that what kills the bridge's (a terminal, a client) does not reach
            // it.
            .process_group(0)
            .spawn()?;
        let input = child.stdin.take();
        // Reaped whenever it ends; nobody waits for that.
        std::thread::Builder::new()
            .name("guardian".to_owned())
            .spawn(move || child.wait())?;
        let mut input = input.ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(self.guarded.lines().as_bytes())?;
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::*;

    fn recording(file: &Path) -> Guardian {
        let script = format!("cat >> {}", file.display());
        Guardian::new(["/bin/sh", "-c", &script])
    }

    fn wait_for(file: &Path, expected: &str) {
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if text == expected {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{text:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn process_starts_with_the_first_thing_to_guard() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("told");
        let guardian = recording(&file);
        guardian.containers_in_order();
        assert!(guardian.state().input.is_none(), "nothing to guard yet");
        guardian.guard_containers("engine".to_owned());
        let group = Pid::from_raw(4_194_303).expect("not zero");
        guardian.clone().guard_group(group);
        guardian.group_ended(group);
        guardian.containers_in_order();
        wait_for(
            &file,
            "container-owner engine\ngroup + 4194303\ngroup - 4194303\nin-order\n",
        );
    }

    #[test]
    fn killed_guardian_is_replaced_and_told_everything() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("told");
        let guardian = recording(&file);
        guardian.guard_containers("a".to_owned());
        wait_for(&file, "container-owner a\n");
        // As if it had been killed: its end of the pipe is closed.
        guardian.state().input = Some(
            Command::new("/bin/true")
                .stdin(Stdio::piped())
                .spawn()
                .and_then(|mut child| {
                    let input = child.stdin.take();
                    child.wait()?;
                    Ok(input)
                })
                .expect("started")
                .expect("piped"),
        );
        wait_for(&file, "container-owner a\n");
        guardian.guard_containers("b".to_owned());
        wait_for(
            &file,
            "container-owner a\ncontainer-owner a\ncontainer-owner b\n",
        );
    }

    #[test]
    fn guardian_that_cannot_start_costs_nothing_else() {
        let guardian = Guardian::new(["/nonexistent/program"]);
        guardian.guard_containers("engine".to_owned());
        guardian.containers_in_order();
        assert!(guardian.state().gave_up);
    }
}
