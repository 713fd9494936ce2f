//! The processes of one server, killed together: launchers such as `npx` and `sh -c` leave the real server behind when
//! only they are killed.

use rustix::process::{Pid, Signal, kill_process_group};

use super::watchdog::Watchdog;

/// A process group that a child of ours leads. Dropping it kills whatever is left of it.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    watchdog: Option<Watchdog>,
}

impl Group {
    /// The group of the process `leader`, which was started as the leader of its own group.
    pub(super) fn new(leader: u32, watchdog: Option<Watchdog>) -> Option<Self> {
        let leader = Pid::from_raw(i32::try_from(leader).ok()?)?;
        if let Some(watchdog) = &watchdog {
            watchdog.add(leader);
        }
        Some(Self { leader, watchdog })
    }

    /// Asks all of them to end.
    pub(super) fn terminate(&self) {
        let _ = kill_process_group(self.leader, Signal::TERM);
    }

    /// Ends all of them.
    pub(super) fn kill(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        if let Some(watchdog) = &self.watchdog {
            watchdog.remove(self.leader);
        }
    }
}
