//! What an engine says that it can enforce.

use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum};

use crate::{EngineReport, Identity};
use bridge_settings::{EngineKind, Limit};

/// Reads `/info`. `owner` is the user whose socket the engine answers on, where it is on this
/// machine.
pub(super) fn read(identity: &Identity, info: &SystemInfo, owner: Option<u32>) -> EngineReport {
    let said_rootless = info
        .security_options
        .iter()
        .flatten()
        .any(|option| option.split(',').any(|part| part == "name=rootless"));
    // Podman 4 does not say it there, but the user who runs it owns its socket.
    let rootless =
        said_rootless || identity.kind == EngineKind::Podman && owner.is_some_and(|uid| uid != 0);
    let cgroup_version = match info.cgroup_version {
        Some(SystemInfoCgroupVersionEnum::_1) => Some(1),
        Some(SystemInfoCgroupVersionEnum::_2) => Some(2),
        _ => None,
    };
    let mut unenforced = Vec::new();
    let mut needs = |able: Option<bool>, limit: Limit| {
        if able == Some(false) && !unenforced.contains(&limit) {
            unenforced.push(limit);
        }
    };
    // Podman says that it can, whatever the user's rights; without root, cgroup v1 never lets it.
    let never = (rootless && cgroup_version == Some(1)).then_some(false);
    needs(never.or(info.memory_limit), Limit::Memory);
    // Podman looks for the swap controller in the root of the hierarchy, where cgroup v2 never has
    // it.
    if identity.kind == EngineKind::Docker {
        needs(info.swap_limit, Limit::Memory);
    }
    needs(never.or(info.pids_limit), Limit::Pids);
    needs(never.or(info.cpu_cfs_quota), Limit::Cpus);
    EngineReport {
        identity: identity.clone(),
        rootless,
        cgroup_version,
        runtime: info.default_runtime.clone().unwrap_or_default(),
        unenforced,
    }
}

impl EngineReport {
    /// In a few words: `podman rootless on cgroup v1`.
    pub fn in_words(&self) -> String {
        let rootless = if self.rootless { " rootless" } else { "" };
        let cgroup = self
            .cgroup_version
            .map(|version| format!(" on cgroup v{version}"))
            .unwrap_or_default();
        format!("{}{rootless}{cgroup}", self.identity.kind)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn identity(kind: EngineKind) -> Identity {
        Identity {
            kind,
            version: "1.2.3".to_owned(),
            api_version: "1.41".to_owned(),
            endpoint: "unix:///engine.sock".to_owned(),
            origin: "test".to_owned(),
            architecture: "amd64".to_owned(),
        }
    }

    #[test]
    fn rootless_on_cgroup_v1_enforces_nothing_whatever_it_says() {
        let info = SystemInfo {
            memory_limit: Some(true),
            pids_limit: Some(true),
            cgroup_version: Some(SystemInfoCgroupVersionEnum::_1),
            ..SystemInfo::default()
        };
        let report = read(&identity(EngineKind::Podman), &info, Some(1000));
        assert_eq!(report.unenforced, Limit::ALL);
        assert_eq!(report.in_words(), "podman rootless on cgroup v1");
        let report = read(&identity(EngineKind::Podman), &info, Some(0));
        assert_eq!(report.unenforced, []);
        assert_eq!(report.in_words(), "podman on cgroup v1");
    }

    #[test]
    fn podman_denies_its_swap_limit_on_cgroup_v2_where_it_has_one() {
        let info = SystemInfo {
            memory_limit: Some(true),
            swap_limit: Some(false),
            pids_limit: Some(true),
            cgroup_version: Some(SystemInfoCgroupVersionEnum::_2),
            ..SystemInfo::default()
        };
        let report = read(&identity(EngineKind::Podman), &info, Some(1000));
        assert_eq!(report.unenforced, []);
    }

    #[test]
    fn docker_says_what_it_lacks() {
        let info = SystemInfo {
            swap_limit: Some(false),
            memory_limit: Some(true),
            security_options: Some(vec![
                "name=seccomp,profile=x".to_owned(),
                "name=rootless".to_owned(),
            ]),
            ..SystemInfo::default()
        };
        let report = read(&identity(EngineKind::Docker), &info, Some(0));
        assert_eq!(report.unenforced, [Limit::Memory]);
        assert!(report.rootless);
    }
}
