//! The process itself: keeps a list until its input ends, then cleans up what is on it.

use std::collections::HashSet;
use std::io::BufRead;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::protocol::{Guarded, Line};

/// How long a process group has to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is looked at meanwhile.
const LOOKS: u32 = 40;

/// Reads `input` to its end, which is the end of the bridge. Then ends the process groups on the
/// list and calls `remove_containers` with the owners that were not said to be in order.
pub fn run(input: impl BufRead, remove_containers: impl FnOnce(&[String]) + Send) {
    let guarded = read(input);
    let owners: Vec<String> = guarded.owners.into_iter().collect();
    std::thread::scope(|scope| {
        if !owners.is_empty() {
            scope.spawn(|| remove_containers(&owners));
        }
        end_groups(&guarded.groups);
    });
}

fn read(mut input: impl BufRead) -> Guarded {
    let mut guarded = Guarded::default();
    let mut line = Vec::new();
    // A line without its end was cut off by the bridge's death; half a number would be another
    // group.
    while input.read_until(b'\n', &mut line).is_ok() && line.pop() == Some(b'\n') {
        if let Some(line) = std::str::from_utf8(&line).ok().and_then(Line::parse) {
            guarded.apply(line);
        }
        line.clear();
    }
    guarded
}

fn end_groups(groups: &HashSet<Pid>) {
    for group in groups {
        let _ = kill_process_group(*group, Signal::TERM);
    }
    for _ in 0..LOOKS {
        if !groups
            .iter()
            .any(|group| test_kill_process_group(*group).is_ok())
        {
            return;
        }
        std::thread::sleep(GRACE / LOOKS);
    }
    for group in groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::Command;

    use super::*;

    fn removed(text: &str) -> Vec<String> {
        let mut removed = Vec::new();
        run(text.as_bytes(), |owners| removed = owners.to_vec());
        removed
    }

    #[test]
    fn containers_are_removed_unless_they_are_in_order() {
        assert_eq!(removed("container-owner a\n"), ["a"]);
        assert_eq!(
            removed("container-owner b\ncontainer-owner a\ncontainer-owner b\n"),
            ["a", "b"]
        );
        assert!(removed("container-owner a\nin-order\n").is_empty());
        assert_eq!(
            removed("container-owner a\nin-order\ncontainer-owner b\n"),
            ["b"]
        );
        assert_eq!(removed("container-owner a\nin-order"), ["a"], "cut off");
        assert!(removed("").is_empty());
    }

    #[test]
    fn group_that_is_still_listed_is_ended() {
        let mut child = Command::new("/bin/sleep")
            .arg("1000")
            .process_group(0)
            .spawn()
            .expect("started");
        let mut ended = Command::new("/bin/sleep")
            .arg("1000")
            .process_group(0)
            .spawn()
            .expect("started");
        let text = format!(
            "group + {0}\ngroup + {1}\ngroup - {1}\n",
            child.id(),
            ended.id()
        );
        let waiting = std::thread::spawn(move || child.wait());
        run(text.as_bytes(), |_| unreachable!("no containers"));
        let status = waiting.join().expect("no panic").expect("waited");
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
        assert!(
            ended.try_wait().expect("a child").is_none(),
            "not its own any more"
        );
        ended.kill().expect("killed");
        ended.wait().expect("waited");
    }
}
