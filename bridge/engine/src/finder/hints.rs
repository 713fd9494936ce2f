//! What to do so that an engine is found: the last sentence of the error that says that none was.

use crate::Attempt;
use bridge_common::host::HostEnv;
use bridge_settings::EngineKind;

/// Adds what is missing on the host when rootless podman does not start.
pub(super) fn diagnosed(problem: String, host: &HostEnv) -> String {
    if host.uid() == 0 {
        return problem;
    }
    if host.find_program("newuidmap").is_none() {
        return format!(
            "{problem}; newuidmap is not on the search path (Debian: install uidmap; NixOS: /run/wrappers/bin)"
        );
    }
    let ranges = std::fs::read_to_string(host.at("/etc/subuid")).unwrap_or_default();
    if ranges.trim().is_empty() {
        return format!(
            "{problem}; /etc/subuid has no range for this user (sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER)"
        );
    }
    let apparmor = host.at("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    if std::fs::read_to_string(apparmor).is_ok_and(|value| value.trim() == "1") {
        return format!(
            "{problem}; AppArmor restricts user namespaces here (sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for podman)"
        );
    }
    problem
}

/// How to start or install an engine on this host.
pub(super) fn way_to_start(
    host: &HostEnv,
    kind: Option<EngineKind>,
    attempts: &[Attempt],
) -> String {
    let denied = attempts.iter().any(|attempt| {
        attempt.kind == Some(EngineKind::Docker) && attempt.reason.is_permission_denied()
    });
    let podman = kind != Some(EngineKind::Docker) && host.find_program("podman").is_some();
    let docker = kind != Some(EngineKind::Podman) && host.find_program("dockerd").is_some();
    let systemd = host.at("/run/systemd/system").is_dir();
    if cfg!(target_os = "macos") && podman {
        "Start one: podman machine init, podman machine start".to_owned()
    } else if podman && systemd && host.uid() != 0 {
        "Start one: systemctl --user start podman.socket".to_owned()
    } else if podman && systemd {
        "Start one: systemctl start podman.socket".to_owned()
    } else if denied {
        "Join docker's group: sudo usermod -aG docker $USER, and log in again".to_owned()
    } else if docker && systemd {
        "Start one: sudo systemctl start docker".to_owned()
    } else if docker {
        "Start one: sudo dockerd".to_owned()
    } else if podman {
        "See what podman says: podman info".to_owned()
    } else {
        format!(
            "Install one, such as {}",
            kind.unwrap_or(EngineKind::Podman)
        )
    }
}
