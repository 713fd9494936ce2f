//! Whose a container is, written on it as labels; and which containers have lost their owner.
//!
//! A guest ends by itself when its bridge goes, because its standard input closes. What is left to sweep are containers
//! that never started, or whose engine was down at the time.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// What all labels begin with.
const PREFIX: &str = "io.mcp-code-bridge.";

/// This bridge, as an owner of containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Of this process, different each time.
    instance: String,
    pid: u32,
    /// When the process started, in the kernel's ticks since boot: with the pid it names one process.
    start: String,
    /// Which boot of the host.
    boot: String,
    /// Which host, and which pid namespace on it: elsewhere a pid means nothing.
    host: String,
}

impl Owner {
    /// This process.
    pub fn of_process() -> Self {
        let pid = std::process::id();
        let start = start_ticks(pid).unwrap_or_else(|| "0".to_owned());
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

    /// The labels of one of its containers. A spare names no session: labels stay as they are when one takes it.
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

    /// What the label of this process's containers says.
    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    /// The label that a process's containers have.
    pub(super) fn instance_label(instance: &str) -> String {
        format!("{PREFIX}instance={instance}")
    }

    /// The filter that finds containers of this host's bridges.
    pub(super) fn filter(&self) -> String {
        format!("{PREFIX}host={}", self.host)
    }

    /// Whether a container with these labels has lost its owner. One that does not say whose it is, or is another
    /// host's, is left alone.
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
        // Where the kernel does not tell ticks, a live pid is taken to be the owner.
        match start_ticks(pid) {
            Some(start) => get("owner-start") != Some(&start),
            None => cfg!(target_os = "linux") || !is_alive(pid),
        }
    }
}

/// Whether there is a process of that number, whoever's.
pub(super) fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    !matches!(
        rustix::process::test_kill_process(pid),
        Err(rustix::io::Errno::SRCH)
    )
}

/// When a process started: field 22 of its `stat`, counted behind the name, which may hold anything.
fn start_ticks(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace();
    // A zombie waits for its parent only; it owns nothing any more.
    if matches!(fields.next(), Some("Z" | "X")) {
        return None;
    }
    fields.nth(18).map(str::to_owned)
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
    fn only_what_has_lost_its_owner_is_swept() {
        assert!(!outlived(|_| {}), "the owner lives");
        assert!(outlived(set("owner-start", "1")), "the pid was used again");
        assert!(outlived(set("owner-pid", "4194303")), "the owner is gone");
        assert!(outlived(set("boot-id", "older")), "the host was restarted");
        assert!(!outlived(set("host", "another")), "not this host's");
        assert!(!outlived(set("owner-pid", "many")), "owner unknown");
        assert!(!outlived(BTreeMap::clear), "not a bridge's");
    }

    #[test]
    fn own_containers_are_left_alone() {
        let owner = Owner::of_process();
        let mut labels = owner.labels(Some("s"));
        set("owner-start", "1")(&mut labels);
        assert!(!owner.outlived(|name| labels.get(name).map(String::as_str)));
    }
}
