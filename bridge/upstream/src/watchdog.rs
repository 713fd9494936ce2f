//! A small process that outlives the bridge for a moment and kills the servers it leaves behind.
//!
//! Servers end when their standard input closes, if they are well made. The others would outlive a bridge that is
//! killed: so their process groups are written to this process, which kills them when its own input closes.

use std::collections::BTreeSet;
use std::io::{BufRead, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The hidden subcommand of the bridge that runs [`run`].
pub const SUBCOMMAND: &str = "watchdog";

/// Processes are asked to end, and this much later made to.
const GRACE: Duration = Duration::from_secs(2);

/// The bridge's end. Cheap to clone; the process ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub(super) struct Watchdog(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    input: Option<ChildStdin>,
    process: Child,
}

impl Watchdog {
    /// Starts it as `command`, which must run [`run`].
    pub(super) fn start(command: &[String]) -> std::io::Result<Self> {
        use std::os::unix::process::CommandExt as _;

        let (program, arguments) = command
            .split_first()
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut process = Command::new(program)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Apart from the bridge's group, so that what kills that group (a terminal, a client) does not reach it.
            .process_group(0)
            .spawn()?;
        let input = process.stdin.take();
        Ok(Self(Arc::new(Mutex::new(Inner { input, process }))))
    }

    /// From now on `group` is to be killed with the bridge.
    pub(super) fn add(&self, group: Pid) {
        self.write('+', group);
    }

    /// `group` is no more.
    pub(super) fn remove(&self, group: Pid) {
        self.write('-', group);
    }

    /// A few bytes into an empty pipe: never blocks for long.
    fn write(&self, sign: char, group: Pid) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{sign}{}\n", group.as_raw_nonzero());
        let written = inner
            .input
            .as_mut()
            .map(|input| input.write_all(line.as_bytes()));
        if !matches!(written, Some(Ok(()))) {
            inner.input = None;
            tracing::warn!("the watchdog is gone; servers may outlive a bridge that is killed");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.input = None;
        // It has nothing left to kill and ends at once; without a wait it would stay as a zombie.
        let _ = self.process.wait();
    }
}

/// The process itself: keeps a list until `input` closes, then kills what is on it.
pub fn run(input: impl BufRead) {
    let mut groups = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        let Some((sign, Some(group))) = line
            .split_at_checked(1)
            .map(|(sign, number)| (sign, group(number)))
        else {
            continue;
        };
        match sign {
            "+" => groups.insert(group),
            _ => groups.remove(&group),
        };
    }
    let groups: Vec<Pid> = groups.into_iter().filter_map(Pid::from_raw).collect();
    for group in &groups {
        let _ = kill_process_group(*group, Signal::TERM);
    }
    let steps = 40;
    for _ in 0..steps {
        if !groups
            .iter()
            .any(|group| test_kill_process_group(*group).is_ok())
        {
            return;
        }
        std::thread::sleep(GRACE / steps);
    }
    for group in groups {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Group 1 and below would mean everybody.
fn group(number: &str) -> Option<i32> {
    number.parse().ok().filter(|group| *group > 1)
}
