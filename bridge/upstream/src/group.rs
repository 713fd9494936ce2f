//! The processes of one server, killed together: launchers such as `npx` and `sh -c` leave the real
//! server behind when only they are killed.

use rustix::process::{Pid, Signal, kill_process_group};

use bridge_guardian::Guardian;

/// A process group that a child of ours leads. Dropping it kills whatever is left of it.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    guardian: Option<Guardian>,
}

impl Group {
    /// The group of the process `leader`, which was started as the leader of its own group.
    pub(super) fn new(leader: u32, guardian: Option<Guardian>) -> Option<Self> {
        let leader = Pid::from_raw(i32::try_from(leader).ok()?)?;
        if let Some(guardian) = &guardian {
            guardian.guard_group(leader);
        }
        Some(Self { leader, guardian })
    }

    /// Sends SIGTERM to all processes of the group.
    pub(super) fn terminate(&self) {
        let _ = kill_process_group(self.leader, Signal::TERM);
    }

    /// Sends SIGKILL to all processes of the group.
    pub(super) fn kill(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        if let Some(guardian) = &self.guardian {
            guardian.group_ended(self.leader);
        }
    }
}
