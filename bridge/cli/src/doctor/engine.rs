//! The checks of the engine (E0) and of the limits that it enforces (L0).

use super::{Check, Outcome};
use bridge_engine::{Engine, Error};
use bridge_settings::{EngineKind, Limit, Settings};

const ANSWERS: &str = "podman or docker answering";
const ENFORCED: &str = "memory, pids and, where set, cpus enforced";

/// The checks of an engine that answers.
pub(super) async fn examine(engine: &dyn Engine, settings: &Settings) -> Vec<Check> {
    let identity = engine.identity();
    let name = format!("{} {}", identity.kind, identity.version);
    let report = match engine.report().await {
        Ok(report) => report,
        Err(error) => {
            let found = format!("{name} at {}: {error}", identity.endpoint);
            return vec![
                Check::ok("engine", "E0", found, ANSWERS).but(Outcome::Fail, start(identity.kind)),
            ];
        }
    };
    let rights = if report.rootless {
        "rootless"
    } else {
        "as root"
    };
    let cgroup = report
        .cgroup_version
        .map(|version| format!(", cgroup v{version}"))
        .unwrap_or_default();
    let runtime = settings
        .engine
        .runtime
        .as_deref()
        .unwrap_or(&report.runtime);
    let found = format!(
        "{name}, {rights}{cgroup}, {runtime}\n{} (from {})",
        identity.endpoint, identity.origin
    );
    vec![
        Check::ok("engine", "E0", found, ANSWERS),
        limits(&report.unenforced, report.cgroup_version, settings),
    ]
}

/// The check that fails when no engine answers.
pub(super) fn missing(error: &Error) -> Check {
    let (found, fix) = match error {
        Error::NotFound(attempts) => {
            let tried: Vec<String> = attempts
                .tried
                .iter()
                .map(|attempt| {
                    let origin = attempt
                        .origin
                        .as_deref()
                        .map(|origin| format!("{origin} "))
                        .unwrap_or_default();
                    format!("{origin}{}: {}", attempt.what, attempt.reason)
                })
                .collect();
            (
                format!("no container engine answers\n{}", tried.join("\n")),
                attempts.start.clone(),
            )
        }
        other => (other.to_string(), "see above".to_owned()),
    };
    Check::ok("engine", "E0", found, ANSWERS).but(Outcome::Fail, fix)
}

fn start(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Podman => "systemctl --user restart podman.socket",
        EngineKind::Docker => "sudo systemctl restart docker",
    }
}

/// Checks that the engine can enforce the limits that are asked for.
fn limits(unenforced: &[Limit], cgroup_version: Option<u8>, settings: &Settings) -> Check {
    let asked = |limit: Limit| limit != Limit::Cpus || settings.limits.cpus.is_some();
    let missing: Vec<Limit> = unenforced
        .iter()
        .copied()
        .filter(|limit| asked(*limit))
        .collect();
    let names = |limits: &[Limit]| {
        limits
            .iter()
            .map(|limit| limit.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    if missing.is_empty() {
        let enforced: Vec<Limit> = Limit::ALL
            .into_iter()
            .filter(|limit| asked(*limit))
            .collect();
        return Check::ok(
            "limits",
            "L0",
            format!("{} enforced", names(&enforced)),
            ENFORCED,
        );
    }
    let found = format!("{} cannot be enforced", names(&missing));
    let refused: Vec<Limit> = missing
        .iter()
        .copied()
        .filter(|limit| !settings.engine.allow_unenforced.contains(limit))
        .collect();
    let delegate = if cgroup_version == Some(2) {
        "have systemd delegate the controllers: Delegate=cpu memory pids in the unit that the engine runs in (user@.service for rootless podman)"
    } else {
        "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or use an engine that runs as root"
    };
    if refused.is_empty() {
        let found = format!("{found}; allowed by allow_unenforced");
        return Check::ok("limits", "L0", found, ENFORCED).but(Outcome::Warn, delegate);
    }
    let accept = format!(
        "or accept it: allow_unenforced: [{}] in bridge.yaml",
        names(&refused)
    );
    Check::ok("limits", "L0", found, ENFORCED).but(Outcome::Fail, format!("{delegate}\n{accept}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_common::host::HostEnv;
    use bridge_engine::{Attempt, Attempts};
    use bridge_settings::Overrides;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        let all = [("HOME", "/nonexistent")]
            .into_iter()
            .chain(variables.iter().copied());
        Settings::load(&Overrides::default(), &HostEnv::fake(all)).expect("accepted")
    }

    #[test]
    fn unenforced_limits_fail_unless_they_are_allowed() {
        let none = limits(&[], Some(2), &settings(&[]));
        assert_eq!(
            (none.outcome, none.found.as_str()),
            (Outcome::Ok, "memory, pids enforced")
        );
        let lacking = limits(&Limit::ALL, Some(1), &settings(&[]));
        assert_eq!(
            (lacking.outcome, lacking.found.as_str()),
            (Outcome::Fail, "memory, pids cannot be enforced")
        );
        assert!(
            lacking.fix.contains("allow_unenforced: [memory, pids]"),
            "{}",
            lacking.fix
        );
        let some = limits(
            &Limit::ALL,
            Some(2),
            &settings(&[("MCP_BRIDGE_ALLOW_UNENFORCED", "memory")]),
        );
        assert!(
            some.fix.contains("Delegate=") && some.fix.contains("[pids]"),
            "{}",
            some.fix
        );
        let allowed = limits(
            &Limit::ALL,
            Some(1),
            &settings(&[("MCP_BRIDGE_ALLOW_UNENFORCED", "memory,pids")]),
        );
        assert_eq!(allowed.outcome, Outcome::Warn);
        let cpus = [
            ("MCP_BRIDGE_ALLOW_UNENFORCED", "memory,pids"),
            ("MCP_BRIDGE_CPUS", "1"),
        ];
        assert_eq!(
            limits(&Limit::ALL, Some(1), &settings(&cpus)).outcome,
            Outcome::Fail
        );
    }

    #[test]
    fn missing_engine_lists_what_was_tried() {
        let attempts = Attempts {
            tried: vec![Attempt {
                kind: Some(EngineKind::Docker),
                what: "/var/run/docker.sock".to_owned(),
                origin: Some("DOCKER_HOST".to_owned()),
                reason: std::io::Error::from(std::io::ErrorKind::NotFound).into(),
            }],
            start: "systemctl --user start podman.socket".to_owned(),
        };
        let check = missing(&Error::NotFound(attempts));
        assert_eq!(check.outcome, Outcome::Fail);
        assert_eq!(
            check.found,
            "no container engine answers\nDOCKER_HOST /var/run/docker.sock: no such file"
        );
        assert_eq!(check.fix, "systemctl --user start podman.socket");
    }
}
