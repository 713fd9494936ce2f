//! The hardened container, in terms of Docker's API and of podman's dialect of it.
//!
//! Everything that a guest is kept from is decided here. What the dialects do not share: podman
//! takes the seccomp profile as a path on its own machine and masked paths as a security option,
//! and adds writable folders to a read-only root that must be closed by name.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    ResourcesUlimits,
};

use crate::ContainerSpec;
use bridge_settings::EngineKind;

/// Options of every writable folder: code that is written there cannot be executed as a program.
const SCRATCH: &str = "rw,noexec,nosuid,nodev,mode=1777";
/// Options of folders that podman would leave writable without bound.
const CLOSED: &str = "ro,noexec,nosuid,nodev,size=4k";
/// Writable folders and their sizes. Without `/dev/shm` neither locks nor pools of
/// `multiprocessing` work.
const SCRATCH_FOLDERS: [(&str, &str); 4] = [
    ("/tmp", "64m"),
    ("/workspace", "128m"),
    ("/projects", "64m"),
    ("/dev/shm", "64m"),
];

/// Files that reveal the host, its hardware or its other users, and that guests do not need. Below
/// `/sys` only the container's own cgroup stays, because the guest reports its limits from there.
pub(super) const MASKED: [&str; 62] = [
    "/dev/mqueue",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/proc/acpi",
    "/proc/asound",
    "/proc/buddyinfo",
    "/proc/bus",
    "/proc/cgroups",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/consoles",
    "/proc/crypto",
    "/proc/devices",
    "/proc/diskstats",
    "/proc/driver",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/latency_stats",
    "/proc/loadavg",
    "/proc/locks",
    "/proc/modules",
    "/proc/mtrr",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/schedstat",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/vmallocinfo",
    "/proc/zoneinfo",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/btrfs",
    "/sys/fs/ext4",
    "/sys/fs/fuse",
    "/sys/fs/pstore",
    "/sys/fs/selinux",
    "/sys/fs/xfs",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
];
/// Docker's own list of read-only paths. It is sent in full, since an engine might drop it where
/// only masked paths are given.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// The host name inside the guest.
const HOSTNAME: &str = "guest";

/// The process limit of the guests' user, for podman: without a number it asks for more than it
/// lets itself have. Each guest is limited by its cgroup.
const PROCESSES: u64 = 16 << 10;

/// What the dialect needs to know besides the specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dialect<'a> {
    /// Which engine's dialect.
    pub(super) kind: EngineKind,
    /// The seccomp profile: its text for docker, its path on the engine's machine for podman.
    pub(super) seccomp: &'a str,
    /// Hard limits of processes on the engine's machine, where known: asking for more fails.
    pub(super) ceiling: Ceiling,
}

/// Hard resource limits that an engine without privileges cannot raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ceiling {
    /// The limit of open files.
    pub(super) open_files: Option<u64>,
    /// The limit of processes; podman asks for four million where it is not told.
    pub(super) processes: Option<u64>,
}

impl Ceiling {
    /// The most that a process of the engine may have. It matters only for an engine that runs as
    /// root on this machine, which may lack the right to raise limits, as in containers; an engine
    /// without root asks for no more than it has.
    pub(super) fn of_engine(owner: Option<u32>) -> Self {
        use rustix::process::{Resource, getrlimit};
        if owner.is_none() || !cfg!(target_os = "linux") {
            return Self::default();
        }
        let processes = getrlimit(Resource::Nproc).maximum.unwrap_or(PROCESSES);
        Self {
            open_files: getrlimit(Resource::Nofile).maximum,
            processes: (owner == Some(0)).then(|| processes.min(PROCESSES)),
        }
    }
}

/// The request that creates the container.
pub(super) fn create_body(spec: &ContainerSpec, dialect: &Dialect<'_>) -> ContainerCreateBody {
    let (user, group) = spec.limits.user;
    ContainerCreateBody {
        image: Some(spec.image_id.clone()),
        hostname: Some(HOSTNAME.to_owned()),
        user: Some(format!("{user}:{group}")),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // Both together end and remove the guest when the bridge's connection goes, however the
        // bridge died.
        stdin_once: Some(true),
        tty: Some(false),
        network_disabled: Some(true),
        // Podman's forced removal waits this long, and PID 1 ignores SIGTERM.
        stop_timeout: Some(0),
        labels: Some(spec.labels.clone().into_iter().collect()),
        host_config: Some(host_config(spec, dialect)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(spec: &ContainerSpec, dialect: &Dialect<'_>) -> HostConfig {
    let limits = &spec.limits;
    let memory = i64::try_from(limits.memory_bytes).unwrap_or(i64::MAX);
    let docker = dialect.kind == EngineKind::Docker;
    let mut security = vec![
        "no-new-privileges".to_owned(),
        format!("seccomp={}", dialect.seccomp),
    ];
    if !docker {
        security.push(format!("mask={}", MASKED.join(":")));
    }
    let owned = |paths: &[&str]| Some(paths.iter().map(|path| (*path).to_owned()).collect());
    HostConfig {
        auto_remove: Some(true),
        network_mode: Some("none".to_owned()),
        readonly_rootfs: Some(true),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(security),
        masked_paths: if docker { owned(&MASKED) } else { None },
        readonly_paths: if docker { owned(&READ_ONLY) } else { None },
        memory: Some(memory),
        // The sum of memory and swap: no swap.
        memory_swap: Some(memory),
        pids_limit: Some(i64::from(limits.pids)),
        nano_cpus: limits.cpus.map(nano_cpus),
        ulimits: Some(ulimits(spec, dialect)),
        tmpfs: Some(tmpfs(dialect.kind)),
        // No shared memory of the engine's making; the tmpfs above takes its place.
        ipc_mode: Some("none".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        init: Some(false),
        // Output is data for the bridge alone; a log would put it on the host's disk without bound.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        runtime: spec.runtime.clone(),
        ..HostConfig::default()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "settings bound it to what a machine can have; the cast saturates"
)]
fn nano_cpus(cpus: f64) -> i64 {
    (cpus * 1e9).round() as i64
}

fn ulimits(spec: &ContainerSpec, dialect: &Dialect<'_>) -> Vec<ResourcesUlimits> {
    let entry = |name: &str, value: u64| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(value),
            hard: Some(value),
        }
    };
    let wanted = u64::from(spec.limits.open_files);
    let open_files = dialect
        .ceiling
        .open_files
        .map_or(wanted, |ceiling| wanted.min(ceiling));
    let mut ulimits = vec![entry("nofile", open_files), entry("core", 0)];
    if dialect.kind == EngineKind::Podman
        && let Some(processes) = dialect.ceiling.processes
    {
        ulimits.push(entry("nproc", processes));
    }
    ulimits
}

fn tmpfs(kind: EngineKind) -> HashMap<String, String> {
    let mut folders: HashMap<String, String> = SCRATCH_FOLDERS
        .iter()
        .map(|(folder, size)| ((*folder).to_owned(), format!("{SCRATCH},size={size}")))
        .collect();
    if kind == EngineKind::Podman {
        for folder in ["/run", "/var/tmp"] {
            folders.insert(folder.to_owned(), CLOSED.to_owned());
        }
    }
    folders
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use bridge_settings::Limits;

    pub(crate) fn spec() -> ContainerSpec {
        ContainerSpec {
            image_id: "sha256:0123".to_owned(),
            limits: Limits {
                memory_bytes: 512 << 20,
                pids: 128,
                cpus: Some(1.5),
                open_files: 1024,
                user: (65534, 65534),
                output_bytes: 1 << 20,
            },
            environment: vec!["PATH=/usr/bin".to_owned()],
            labels: BTreeMap::from([("io.mcp-code-bridge.session".to_owned(), "s".to_owned())]),
            runtime: None,
        }
    }

    fn shown(dialect: &Dialect<'_>) -> String {
        let value = serde_json::to_value(create_body(&spec(), dialect)).expect("JSON");
        serde_json::to_string_pretty(&sorted(value)).expect("JSON")
    }

    /// Docker's models keep maps in hash order.
    fn sorted(value: serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Object(map) => {
                let ordered: BTreeMap<_, _> = map
                    .into_iter()
                    .map(|(key, value)| (key, sorted(value)))
                    .collect();
                ordered.into_iter().collect()
            }
            other => other,
        }
    }

    #[test]
    fn docker() {
        insta::assert_snapshot!(shown(&Dialect {
            kind: EngineKind::Docker,
            seccomp: "{}",
            ceiling: Ceiling::default(),
        }));
    }

    #[test]
    fn podman() {
        insta::assert_snapshot!(shown(&Dialect {
            kind: EngineKind::Podman,
            seccomp: "/tmp/seccomp.json",
            ceiling: Ceiling {
                open_files: Some(512),
                processes: Some(4096)
            },
        }));
    }

    #[test]
    fn cgroup_stays_readable() {
        assert!(MASKED.is_sorted());
        assert!(
            MASKED
                .iter()
                .all(|path| !"/sys/fs/cgroup".starts_with(path))
        );
    }
}
