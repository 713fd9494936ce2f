//! Compares what the engine really created with what was asked for.
//!
//! Engines silently drop what they cannot do: rootless podman on cgroup v1 answers 201 without a
//! warning and sets neither limit. So only what the engine states afterwards counts.

use bollard::models::{ContainerInspectResponse, HostConfig};

use crate::{ContainerSpec, Created};
use bridge_settings::Limit;

/// Variables that engines set by themselves, and their values where these are known.
const ENGINES_OWN: [(&str, Option<&str>); 6] = [
    ("HOSTNAME", None),
    ("HOME", None),
    ("PATH", None),
    ("TERM", Some("xterm")),
    ("container", None),
    ("NVIDIA_VISIBLE_DEVICES", Some("void")),
];

/// Compares an inspection with the specification.
pub(super) fn compare(found: &ContainerInspectResponse, spec: &ContainerSpec) -> Created {
    let host = found.host_config.clone().unwrap_or_default();
    let config = found.config.clone().unwrap_or_default();
    let mut differences = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            differences.push(what.to_owned());
        }
    };
    let (user, group) = spec.limits.user;
    let found_user = config.user.unwrap_or_default();
    expect(
        found_user == format!("{user}:{group}"),
        &format!("user is {found_user:?}, not {user}:{group}"),
    );
    expect(
        host.readonly_rootfs == Some(true),
        "the root folder is writable",
    );
    let network = host.network_mode.clone().unwrap_or_default();
    expect(
        network == "none",
        &format!("network is {network:?}, not none"),
    );
    expect(host.privileged != Some(true), "it is privileged");
    expect(
        host.cap_add.as_ref().is_none_or(Vec::is_empty),
        "it has added capabilities",
    );
    expect(
        host.devices.as_ref().is_none_or(Vec::is_empty),
        "it has devices of the host",
    );
    let joins_host = |mode: &Option<String>| mode.as_deref() == Some("host");
    expect(
        !joins_host(&host.pid_mode),
        "it shares the host's processes",
    );
    expect(!joins_host(&host.ipc_mode), "it shares the host's IPC");
    expect(!joins_host(&host.uts_mode), "it shares the host's name");
    let mounted: Vec<String> = found
        .mounts
        .iter()
        .flatten()
        .filter(|mount| mount.typ.as_deref() != Some("tmpfs"))
        .map(|mount| mount.destination.clone().unwrap_or_default())
        .collect();
    expect(
        mounted.is_empty() && host.binds.as_ref().is_none_or(Vec::is_empty),
        &format!("something of the host is mounted ({})", mounted.join(", ")),
    );
    let foreign = foreign_variables(config.env.as_deref().unwrap_or_default(), &spec.environment);
    expect(
        foreign.is_empty(),
        &format!("the engine adds variables ({})", foreign.join(", ")),
    );
    Created {
        image_id: found.image.clone().unwrap_or_default(),
        unenforced: unenforced(&host, spec),
        differences,
    }
}

/// Names of variables that come neither from the image nor from the engine itself. Their values may
/// be secret.
fn foreign_variables(found: &[String], image: &[String]) -> Vec<String> {
    found
        .iter()
        .filter(|variable| !image.contains(variable))
        .filter_map(|variable| {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            let own = ENGINES_OWN
                .iter()
                .any(|(own, known)| *own == name && known.is_none_or(|known| known == value));
            (!own).then(|| name.to_owned())
        })
        .collect()
}

fn unenforced(host: &HostConfig, spec: &ContainerSpec) -> Vec<Limit> {
    let limits = &spec.limits;
    let memory = i64::try_from(limits.memory_bytes).ok();
    let mut missing = Vec::new();
    if host.memory != memory || host.memory_swap != memory {
        missing.push(Limit::Memory);
    }
    if host.pids_limit != Some(i64::from(limits.pids)) {
        missing.push(Limit::Pids);
    }
    if let Some(cpus) = limits.cpus
        && !found_cpus(host).is_some_and(|found| (found - cpus).abs() < 0.01)
    {
        missing.push(Limit::Cpus);
    }
    missing
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of CPUs and microseconds are far below 2^52"
)]
fn found_cpus(host: &HostConfig) -> Option<f64> {
    let positive = |number: Option<i64>| number.filter(|number| *number > 0).map(|it| it as f64);
    if let Some(nano) = positive(host.nano_cpus) {
        return Some(nano / 1e9);
    }
    Some(positive(host.cpu_quota)? / positive(host.cpu_period)?)
}

#[cfg(test)]
mod tests {
    use bollard::models::{ContainerConfig, MountPoint};

    use super::super::hardening::tests::spec;
    use super::*;

    fn as_asked() -> ContainerInspectResponse {
        ContainerInspectResponse {
            image: Some("sha256:0123".to_owned()),
            config: Some(ContainerConfig {
                user: Some("65534:65534".to_owned()),
                env: Some(vec!["PATH=/usr/bin".to_owned(), "TERM=xterm".to_owned()]),
                ..ContainerConfig::default()
            }),
            host_config: Some(HostConfig {
                readonly_rootfs: Some(true),
                network_mode: Some("none".to_owned()),
                memory: Some(512 << 20),
                memory_swap: Some(512 << 20),
                pids_limit: Some(128),
                cpu_quota: Some(150_000),
                cpu_period: Some(100_000),
                ..HostConfig::default()
            }),
            ..ContainerInspectResponse::default()
        }
    }

    #[test]
    fn as_asked_for() {
        let created = compare(&as_asked(), &spec());
        assert_eq!(created.image_id, "sha256:0123");
        assert_eq!((created.unenforced, created.differences), (vec![], vec![]));
    }

    #[test]
    fn an_empty_answer_satisfies_nothing() {
        let created = compare(&ContainerInspectResponse::default(), &spec());
        assert_eq!(created.unenforced, Limit::ALL);
        assert_eq!(created.differences.len(), 3, "{:?}", created.differences);
    }

    #[test]
    fn what_the_engine_adds_is_seen() {
        let check = |change: &dyn Fn(&mut ContainerInspectResponse), part: &str| {
            let mut found = as_asked();
            change(&mut found);
            let differences = compare(&found, &spec()).differences;
            assert_eq!(differences.len(), 1, "{differences:?}");
            assert!(differences[0].contains(part), "{differences:?}");
        };
        let host = |found: &mut ContainerInspectResponse, change: &dyn Fn(&mut HostConfig)| {
            change(found.host_config.as_mut().expect("set above"));
        };
        check(
            &|found| {
                found.mounts = Some(vec![MountPoint {
                    typ: Some("bind".to_owned()),
                    destination: Some("/host".to_owned()),
                    ..MountPoint::default()
                }]);
            },
            "mounted (/host)",
        );
        check(
            &|found| {
                let config = found.config.as_mut().expect("set above");
                config
                    .env
                    .as_mut()
                    .expect("set above")
                    .push("TOKEN=secret".to_owned());
            },
            "variables (TOKEN)",
        );
        check(
            &|found| host(found, &|it| it.privileged = Some(true)),
            "privileged",
        );
        check(
            &|found| host(found, &|it| it.pid_mode = Some("host".to_owned())),
            "processes",
        );
        check(
            &|found| host(found, &|it| it.network_mode = Some("bridge".to_owned())),
            "network is \"bridge\"",
        );
    }
}
