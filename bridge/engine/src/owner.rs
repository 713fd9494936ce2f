//! Who owns a container, written on it as labels, and which containers have lost their owner.
//!
//! A guest ends by itself when its bridge dies, because its standard input closes. Only containers
//! that never started, or whose engine was down at the time, are left over.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The beginning of every label.
const PREFIX: &str = "io.mcp-code-bridge.";

/// This bridge, as an owner of containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// A name for this process, different each time.
    instance: String,
    pid: u32,
    /// When the process started, in the kernel's ticks since boot; with the pid it identifies one
    /// process.
    start: String,
    /// Identifies the boot of the host.
    boot: String,
    /// Identifies the host and the pid namespace on it; elsewhere a pid means nothing.
    host: String,
}

impl Owner {
    /// This process as an owner.
    pub fn of_process() -> Self {
        let pid = std::process::id();
        let start = match Process::look(pid) {
            Process::Running(start) => start,
            _ => "0".to_owned(),
        };
        let boot = first_readable(&["/proc/sys/kernel/random/boot_id"]);
        let machine = first_readable(&[
            "/etc/machine-id",
            "/var/lib/dbus/machine-id",
            "/etc/hostname",
        ]);
        let namespace = std::fs::read_link("/proc/self/ns/pid")
            .map(|link| link.to_string_lossy().into_owned())
            .unwrap_or_default();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let host = short_hash(&[&machine, &namespace]);
        Self {
            instance: short_hash(&[&host, &boot, &pid.to_string(), &start, &now.to_string()]),
            pid,
            start,
            boot: short_hash(&[&boot]),
            host,
        }
    }

    /// The labels of one of this owner's containers. A spare guest has none for a session, since
    /// labels cannot be changed when a session takes it.
    pub fn labels(&self, session: Option<&str>) -> BTreeMap<String, String> {
        let session = session.map(|name| ("session", name.chars().take(128).collect()));
        [
            ("instance", self.instance.clone()),
            ("owner-pid", self.pid.to_string()),
            ("owner-start", self.start.clone()),
            ("boot-id", self.boot.clone()),
            ("host", self.host.clone()),
        ]
        .into_iter()
        .chain(session)
        .map(|(name, value)| (format!("{PREFIX}{name}"), value))
        .collect()
    }

    /// The value that the instance label of this process's containers has.
    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    /// The filter that finds the containers of one process.
    pub(super) fn instance_label(instance: &str) -> String {
        format!("{PREFIX}instance={instance}")
    }

    /// The filter that finds containers of this host's bridges.
    pub(super) fn filter(&self) -> String {
        format!("{PREFIX}host={}", self.host)
    }

    /// Whether a container with these labels has lost its owner. A container without an owner, or
    /// of another host, is left alone.
    pub(super) fn outlived<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let get = |name: &str| label(&format!("{PREFIX}{name}"));
        if get("host") != Some(&self.host) || get("instance").is_none_or(|it| it == self.instance) {
            return false;
        }
        if get("boot-id") != Some(&self.boot) {
            return true;
        }
        let Some(pid) = get("owner-pid").and_then(|pid| pid.parse().ok()) else {
            return false;
        };
        Process::look(pid).is_gone(get("owner-start"))
    }
}

/// What can be seen of a process.
#[derive(Debug, PartialEq, Eq)]
enum Process {
    /// It runs, and started at that tick.
    Running(String),
    /// It waits for its parent only, and owns nothing any more.
    Zombie,
    /// It exists, and `/proc` hides it: it belongs to another user, or there is no `/proc`.
    Hidden,
    /// Nothing has that number.
    Absent,
}

impl Process {
    fn look(pid: u32) -> Self {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => Self::read(&stat),
            Err(_) if is_alive(pid) => Self::Hidden,
            Err(_) => Self::Absent,
        }
    }

    /// From its `stat`. The fields are counted behind the name, which may hold anything; the start
    /// is field 22.
    fn read(stat: &str) -> Self {
        let mut fields = stat
            .rsplit_once(')')
            .map_or("", |(_, behind_name)| behind_name)
            .split_whitespace();
        if matches!(fields.next(), Some("Z" | "X")) {
            return Self::Zombie;
        }
        fields
            .nth(18)
            .map_or(Self::Hidden, |start| Self::Running(start.to_owned()))
    }

    /// Whether the process that started at `start` has ended. A process that cannot be seen is not
    /// dead.
    fn is_gone(&self, start: Option<&str>) -> bool {
        match self {
            Self::Running(found) => start != Some(found),
            Self::Zombie | Self::Absent => true,
            Self::Hidden => false,
        }
    }
}

/// Whether there is a process of that number, of whatever user.
pub(super) fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    // EPERM: it is another user's, and lives.
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

fn first_readable(files: &[&str]) -> String {
    files
        .iter()
        .find_map(|file| std::fs::read_to_string(file).ok())
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

fn short_hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hex::encode(hash.finalize())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlived(change: impl Fn(&mut BTreeMap<String, String>)) -> bool {
        let owner = Owner::of_process();
        let mut labels = owner.labels(Some("s"));
        labels.insert(
            "io.mcp-code-bridge.instance".to_owned(),
            "another".to_owned(),
        );
        change(&mut labels);
        owner.outlived(|name| labels.get(name).map(String::as_str))
    }

    fn set(name: &'static str, value: &'static str) -> impl Fn(&mut BTreeMap<String, String>) {
        move |labels| {
            labels.insert(format!("{PREFIX}{name}"), value.to_owned());
        }
    }

    #[test]
    fn only_containers_of_dead_owners_are_removed() {
        assert!(!outlived(|_| {}), "the owner lives");
        assert!(outlived(set("owner-start", "1")), "the pid was used again");
        assert!(outlived(set("owner-pid", "4194303")), "the owner is gone");
        assert!(outlived(set("boot-id", "older")), "the host was restarted");
        assert!(!outlived(set("host", "another")), "not this host's");
        assert!(!outlived(set("owner-pid", "many")), "owner unknown");
        assert!(!outlived(BTreeMap::clear), "not a bridge's");
    }

    #[test]
    fn process_that_cannot_be_seen_is_not_dead() {
        assert!(!Process::Hidden.is_gone(Some("5")));
        assert!(Process::Absent.is_gone(Some("5")));
        assert!(Process::Zombie.is_gone(Some("5")));
        assert!(Process::Running("6".to_owned()).is_gone(Some("5")));
        assert!(!Process::Running("5".to_owned()).is_gone(Some("5")));
    }

    #[test]
    fn process_is_read_behind_its_name() {
        let stat = |state: &str| {
            format!("7 (a) b) {state} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1000 1")
        };
        assert_eq!(
            Process::read(&stat("S")),
            Process::Running("4242".to_owned())
        );
        assert_eq!(Process::read(&stat("Z")), Process::Zombie);
        assert_eq!(Process::look(4_194_303), Process::Absent);
        // Process 1 is another user's where tests do not run as root.
        assert!(is_alive(1));
    }

    #[test]
    fn own_containers_are_left_alone() {
        let owner = Owner::of_process();
        let mut labels = owner.labels(Some("s"));
        set("owner-start", "1")(&mut labels);
        assert!(!owner.outlived(|name| labels.get(name).map(String::as_str)));
    }
}
