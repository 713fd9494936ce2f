//! What rootless podman needs from the host: a runtime folder (E1), user ranges (E2), newuidmap
//! (E3), user namespaces (E4). Only what is wrong is shown.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Check, Outcome};
use bridge_common::host::HostEnv;
use bridge_engine::Identity;
use bridge_settings::{EngineKind, Settings};

/// The host as podman without root needs it.
pub(super) struct Host<'a> {
    env: &'a HostEnv,
    /// The settings ask for podman, or leave the choice open.
    podman: bool,
}

impl<'a> Host<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self {
            env: &settings.host,
            podman: settings.engine.kind != Some(EngineKind::Docker),
        }
    }

    /// What is wrong for podman without root. If an engine answers, it is only a warning.
    pub(super) fn examine(&self, engine: Option<&Identity>) -> Vec<Check> {
        let local_podman = engine.is_none_or(|identity| {
            identity.kind == EngineKind::Podman && identity.endpoint.starts_with("unix://")
        });
        let installed = engine.is_some() || self.env.find_program("podman").is_some();
        if self.env.uid() == 0 || !self.podman || !local_podman || !installed {
            return Vec::new();
        }
        let outcome = if engine.is_some() {
            Outcome::Warn
        } else {
            Outcome::Fail
        };
        [
            self.runtime_dir(),
            self.ranges(),
            self.newuidmap(),
            self.namespaces(),
        ]
        .into_iter()
        .flatten()
        .map(|check| Check { outcome, ..check })
        .collect()
    }

    fn runtime_dir(&self) -> Option<Check> {
        let problem = match self.env.raw("XDG_RUNTIME_DIR").map(Path::new) {
            None => "XDG_RUNTIME_DIR is not set".to_owned(),
            Some(folder) => match std::fs::metadata(folder) {
                Err(error) => format!("XDG_RUNTIME_DIR is {}: {error}", folder.display()),
                Ok(facts) if facts.uid() != self.env.uid() => {
                    format!(
                        "XDG_RUNTIME_DIR is {}, which belongs to uid {}",
                        folder.display(),
                        facts.uid()
                    )
                }
                Ok(_) => return None,
            },
        };
        let usual = self.env.at(&format!("/run/user/{}", self.env.uid()));
        let fix = if usual.is_dir() {
            format!("export XDG_RUNTIME_DIR={}", usual.display())
        } else {
            format!(
                "sudo loginctl enable-linger {}, then log in anew",
                self.env.uid()
            )
        };
        let expected = format!("XDG_RUNTIME_DIR naming a folder of uid {}", self.env.uid());
        Some(Check::ok("runtimedir", "E1", problem, &expected).but(Outcome::Fail, fix))
    }

    fn ranges(&self) -> Option<Check> {
        let user = self.user_name()?;
        let id = self.env.uid().to_string();
        let lacks = |file: &str| {
            let text = std::fs::read_to_string(self.env.at(file)).unwrap_or_default();
            let owners = text.lines().filter_map(|line| line.split(':').next());
            !owners.into_iter().any(|owner| owner == user || owner == id)
        };
        let missing: Vec<&str> = ["/etc/subuid", "/etc/subgid"]
            .into_iter()
            .filter(|file| lacks(file))
            .collect();
        if missing.is_empty() {
            return None;
        }
        let found = format!("{user} has no range in {}", missing.join(" and "));
        let fix = format!(
            "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}\npodman system migrate"
        );
        Some(
            Check::ok(
                "idranges",
                "E2",
                found,
                "65536 subordinate user and group ids",
            )
            .but(Outcome::Fail, fix),
        )
    }

    /// The user's name from `/etc/passwd`. Users from elsewhere may have their ranges elsewhere
    /// too: then nothing is said.
    fn user_name(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.env.at("/etc/passwd")).ok()?;
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(self.env.uid())).then(|| name.to_owned())
        })
    }

    fn newuidmap(&self) -> Option<Check> {
        let expected = "newuidmap and newgidmap, setuid root or with file capabilities";
        for name in ["newuidmap", "newgidmap"] {
            let Some(program) = self.env.find_program(name) else {
                let fix = "install it (Debian: apt install uidmap; NixOS: security.wrappers, found in /run/wrappers/bin)";
                let found = format!("{name} is not on the search path");
                return Some(Check::ok("idmap", "E3", found, expected).but(Outcome::Fail, fix));
            };
            let facts = std::fs::metadata(&program).ok()?;
            // File capabilities do the same as setuid, but are not visible here. Only a program
            // that does not belong to root is certainly useless.
            if facts.mode() & 0o4000 == 0 && facts.uid() != 0 {
                let found = format!("{} is not setuid root", program.display());
                let fix = format!(
                    "sudo chown root {0} && sudo chmod u+s {0}",
                    program.display()
                );
                return Some(Check::ok("idmap", "E3", found, expected).but(Outcome::Fail, fix));
            }
        }
        None
    }

    fn namespaces(&self) -> Option<Check> {
        let value = |file: &str| {
            let text = std::fs::read_to_string(self.env.at(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let expected = "user namespaces for everyone";
        let check = |found: &str, fix: &str| {
            Some(Check::ok("userns", "E4", found, expected).but(Outcome::Fail, fix))
        };
        if value("/proc/sys/user/max_user_namespaces") == Some(0) {
            return check(
                "user.max_user_namespaces is 0",
                "sudo sysctl user.max_user_namespaces=15000",
            );
        }
        if value("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
            return check(
                "kernel.unprivileged_userns_clone is 0",
                "sudo sysctl kernel.unprivileged_userns_clone=1",
            );
        }
        if value("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1)
            && !self.env.at("/etc/apparmor.d/podman").exists()
        {
            return check(
                "AppArmor lets only programs with a profile make user namespaces, and podman has none",
                "install podman's AppArmor profile (/etc/apparmor.d/podman)\n\
                 or for all programs: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
            );
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A host in a folder, with podman installed and everything else missing.
    struct Fake {
        root: tempfile::TempDir,
    }

    impl Fake {
        fn new() -> Self {
            let fake = Self {
                root: tempfile::tempdir().expect("a temporary folder"),
            };
            fake.write(
                "etc/passwd",
                "root:x:0:0::/root:/bin/sh\nann:x:4242:4242::/home/ann:/bin/sh\n",
            );
            fake.program("podman");
            fake
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }

        fn program(&self, name: &str) {
            let path = format!("usr/bin/{name}");
            self.write(&path, "");
            let mode = std::fs::Permissions::from_mode(0o4755);
            std::fs::set_permissions(self.root.path().join(path), mode).expect("set");
        }

        fn env(&self, uid: u32, path: &str, runtime_dir: Option<&Path>) -> HostEnv {
            let path = self.root.path().join(path).display().to_string();
            let runtime_dir = runtime_dir.map(|folder| folder.display().to_string());
            let variables = [
                ("PATH", path.as_str()),
                (
                    "XDG_RUNTIME_DIR",
                    runtime_dir.as_deref().unwrap_or_default(),
                ),
            ];
            HostEnv::fake_below(self.root.path(), variables).as_user(uid)
        }

        fn codes(&self, runtime_dir: Option<&Path>) -> Vec<&'static str> {
            let env = self.env(4242, "usr/bin", runtime_dir);
            let host = Host {
                env: &env,
                podman: true,
            };
            host.examine(None)
                .into_iter()
                .map(|check| check.code)
                .collect()
        }
    }

    #[test]
    fn each_fault_has_its_code() {
        let fake = Fake::new();
        assert_eq!(fake.codes(None), ["E1", "E2", "E3"]);
        assert_eq!(
            fake.codes(Some(Path::new("/"))),
            ["E1", "E2", "E3"],
            "a folder of root"
        );
        fake.write("etc/subuid", "ann:100000:65536\n");
        fake.write("etc/subgid", "4242:100000:65536\n");
        fake.program("newuidmap");
        assert_eq!(fake.codes(None), ["E1", "E3"]);
        fake.program("newgidmap");
        fake.write(
            "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1\n",
        );
        assert_eq!(fake.codes(None), ["E1", "E4"]);
        fake.write("etc/apparmor.d/podman", "");
        assert_eq!(fake.codes(None), ["E1"]);
        fake.write("proc/sys/user/max_user_namespaces", "0\n");
        assert_eq!(fake.codes(None), ["E1", "E4"]);
    }

    #[test]
    fn nothing_is_checked_without_podman_or_as_root() {
        let fake = Fake::new();
        let checks = |uid: u32, podman: bool, path: &str| {
            let env = fake.env(uid, path, None);
            Host { env: &env, podman }.examine(None)
        };
        assert_eq!(checks(0, true, "usr/bin"), []);
        assert_eq!(checks(4242, false, "usr/bin"), []);
        assert_eq!(checks(4242, true, "elsewhere"), []);
        assert_eq!(checks(4242, true, "usr/bin").len(), 3);
    }
}
