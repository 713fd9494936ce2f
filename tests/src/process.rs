//! Facts about processes from `/proc`.

use std::fs;
use std::time::Duration;

/// Whether a process exists and is not a zombie.
#[must_use]
pub fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The processor time that a process has used, to a hundredth of a second.
#[must_use]
pub fn processor_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind_name = stat.rsplit_once(") ")?.1;
    let mut fields = behind_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

/// The most memory that a process has had resident, in bytes.
#[must_use]
pub fn peak_resident_bytes(pid: u32) -> Option<u64> {
    status_kib(pid, "VmHWM:")
}

/// The memory that a process has resident now, in bytes.
#[must_use]
pub fn resident_bytes(pid: u32) -> Option<u64> {
    status_kib(pid, "VmRSS:")
}

fn status_kib(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The first living process with this name (at most 15 bytes).
#[must_use]
pub fn named(name: &str) -> Option<u32> {
    let entries = fs::read_dir("/proc").ok()?;
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| alive(*pid))
        .find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|found| found.trim_end() == name)
        })
}

/// Living processes with `text` in their environment or command line, as `pid: command line`.
#[must_use]
pub fn marked_with(text: &str) -> Vec<String> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own && alive(*pid))
        .filter_map(|pid| {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let command = read("cmdline");
            let found = contains(&read("environ"), text) || contains(&command, text);
            found.then(|| {
                format!(
                    "{pid}: {}",
                    String::from_utf8_lossy(&command).replace('\0', " ")
                )
            })
        })
        .collect()
}

/// Living processes with `text` in their command line.
#[must_use]
pub fn with_command(text: &str) -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| alive(*pid))
        .filter_map(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            command.contains(text).then_some((pid, command))
        })
        .collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// Sends a signal by number to one process, which may be gone already.
pub fn signal(pid: u32, number: i32) {
    let _ = std::process::Command::new("kill")
        .arg(format!("-{number}"))
        .arg(pid.to_string())
        .status();
}
