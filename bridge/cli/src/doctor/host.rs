//! What rootless podman needs of the host: E1 runtime folder, E2 user ranges, E3 newuidmap, E4 user namespaces. Only what
//! is wrong is shown.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::{Check, Outcome};
use bridge_engine::Identity;
use bridge_settings::{EngineKind, Settings};

/// The host as this user sees it.
pub(super) struct Host {
    uid: u32,
    root: PathBuf,
    path: OsString,
    runtime_dir: Option<PathBuf>,
    /// Podman is what the settings ask for, or may be.
    podman: bool,
}

impl Host {
    pub(super) fn of_process(settings: &Settings) -> Self {
        Self {
            uid: rustix::process::getuid().as_raw(),
            root: PathBuf::from("/"),
            path: settings.surroundings.path.clone().unwrap_or_default(),
            runtime_dir: settings.surroundings.runtime_dir.clone(),
            podman: settings.engine.kind != Some(EngineKind::Docker),
        }
    }

    /// What is wrong for podman without root. With an engine that answers it is worth a warning at most.
    pub(super) fn examine(&self, engine: Option<&Identity>) -> Vec<Check> {
        let local_podman = engine.is_none_or(|identity| {
            identity.kind == EngineKind::Podman && identity.endpoint.starts_with("unix://")
        });
        let installed = engine.is_some() || self.program("podman").is_some();
        if self.uid == 0 || !self.podman || !local_podman || !installed {
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

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn runtime_dir(&self) -> Option<Check> {
        let problem = match &self.runtime_dir {
            None => "XDG_RUNTIME_DIR is not set".to_owned(),
            Some(folder) => match std::fs::metadata(folder) {
                Err(error) => format!("XDG_RUNTIME_DIR is {}: {error}", folder.display()),
                Ok(facts) if facts.uid() != self.uid => {
                    format!(
                        "XDG_RUNTIME_DIR is {}, which belongs to uid {}",
                        folder.display(),
                        facts.uid()
                    )
                }
                Ok(_) => return None,
            },
        };
        let usual = self.at(&format!("/run/user/{}", self.uid));
        let fix = if usual.is_dir() {
            format!("export XDG_RUNTIME_DIR={}", usual.display())
        } else {
            format!("sudo loginctl enable-linger {}, then log in anew", self.uid)
        };
        let expected = format!("XDG_RUNTIME_DIR naming a folder of uid {}", self.uid);
        Some(Check::ok("runtimedir", "E1", problem, &expected).but(Outcome::Fail, fix))
    }

    fn ranges(&self) -> Option<Check> {
        let user = self.user_name()?;
        let id = self.uid.to_string();
        let lacks = |file: &str| {
            let text = std::fs::read_to_string(self.at(file)).unwrap_or_default();
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

    /// From the user database's file. Where users come from elsewhere, their ranges may too: nothing is said then.
    fn user_name(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.at("/etc/passwd")).ok()?;
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(self.uid)).then(|| name.to_owned())
        })
    }

    fn newuidmap(&self) -> Option<Check> {
        let expected = "newuidmap and newgidmap, setuid root or with file capabilities";
        for name in ["newuidmap", "newgidmap"] {
            let Some(program) = self.program(name) else {
                let fix = "install it (Debian: apt install uidmap; NixOS: security.wrappers, found in /run/wrappers/bin)";
                let found = format!("{name} is not on the search path");
                return Some(Check::ok("idmap", "E3", found, expected).but(Outcome::Fail, fix));
            };
            let facts = std::fs::metadata(&program).ok()?;
            // File capabilities do the same and cannot be seen without asking for an attribute; only a program that
            // belongs to somebody else than root is surely of no use.
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
            let text = std::fs::read_to_string(self.at(file)).ok()?;
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
            && !self.at("/etc/apparmor.d/podman").exists()
        {
            return check(
                "AppArmor lets only programs with a profile make user namespaces, and podman has none",
                "install podman's AppArmor profile (/etc/apparmor.d/podman)\n\
                 or for all programs: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
            );
        }
        None
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        let wrappers = self.at("/run/wrappers/bin");
        let folders = std::iter::once(wrappers).chain(std::env::split_paths(&self.path));
        folders
            .map(|folder| folder.join(name))
            .find(|program| is_program(program))
    }
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host in a folder, with podman installed and nothing else right.
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

        fn codes(&self, runtime_dir: Option<&Path>) -> Vec<&'static str> {
            let host = Host {
                uid: 4242,
                root: self.root.path().to_owned(),
                path: self.root.path().join("usr/bin").into(),
                runtime_dir: runtime_dir.map(Path::to_owned),
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
    fn without_podman_or_as_root_nothing_of_it_matters() {
        let fake = Fake::new();
        let host = |uid: u32, podman: bool, path: &str| Host {
            uid,
            root: fake.root.path().to_owned(),
            path: fake.root.path().join(path).into(),
            runtime_dir: None,
            podman,
        };
        assert_eq!(host(0, true, "usr/bin").examine(None), []);
        assert_eq!(host(4242, false, "usr/bin").examine(None), []);
        assert_eq!(host(4242, true, "elsewhere").examine(None), []);
        assert_eq!(host(4242, true, "usr/bin").examine(None).len(), 3);
    }
}
