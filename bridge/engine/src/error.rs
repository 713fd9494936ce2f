//! What can go wrong with an engine, in words for the person who has to mend it.

use std::fmt;
use std::time::Duration;

use bridge_settings::EngineKind;

/// What can go wrong with an engine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Nothing that was tried answers.
    #[error("{0}")]
    NotFound(Attempts),
    /// It answered before and does not now.
    #[error(
        "{engine} at {endpoint} does not answer any more ({reason}), while asked to {act}. Start it again; details: mcp-code-bridge doctor"
    )]
    Gone {
        /// `podman` or `docker`.
        engine: EngineKind,
        /// Its address.
        endpoint: String,
        /// What it was asked to do.
        act: &'static str,
        /// What the connection said.
        reason: String,
    },
    /// It took too long.
    #[error("{engine} at {endpoint} did not {act} within {} s. Is its machine overloaded? Details: mcp-code-bridge doctor", after.as_secs())]
    Deadline {
        /// `podman` or `docker`.
        engine: EngineKind,
        /// Its address.
        endpoint: String,
        /// What it was asked to do.
        act: &'static str,
        /// How long it had.
        after: Duration,
    },
    /// It said no.
    #[error("{engine} could not {act}: {message}{}", hint(message))]
    Refused {
        /// `podman` or `docker`.
        engine: EngineKind,
        /// What it was asked to do.
        act: &'static str,
        /// The HTTP status; 0 where the refusal came inside a stream.
        status: u16,
        /// Its own words.
        message: String,
    },
    /// The engine's machine cannot read the seccomp profile, and a guest is not run without it.
    #[error(
        "podman at {endpoint} cannot read the seccomp profile {path} on its machine ({message}). Nothing was run. Copy that file to the same path there, or use an engine on this machine"
    )]
    SeccompUnreadable {
        /// The engine's address.
        endpoint: String,
        /// Where the profile is on this machine.
        path: String,
        /// The engine's own words.
        message: String,
    },
    /// The seccomp profile cannot be written for podman to read.
    #[error(
        "cannot write the seccomp profile that podman is to read ({reason}). Nothing was run. Make one of these writable: {places}"
    )]
    SeccompUnwritable {
        /// Folders that were tried.
        places: String,
        /// Why the last failed.
        reason: String,
    },
    /// No seccomp profile of ours for the engine's processor.
    #[error("{engine} at {endpoint} runs on {architecture}; guests exist for amd64 and arm64")]
    Architecture {
        /// `podman` or `docker`.
        engine: EngineKind,
        /// Its address.
        endpoint: String,
        /// What it said.
        architecture: String,
    },
    /// The image archive on this machine cannot be read.
    #[error("cannot read the image archive: {reason}")]
    Archive {
        /// What the file system said.
        reason: String,
    },
    /// An answer that no engine should give.
    #[error("{engine} gave an answer that makes no sense when asked to {act}: {reason}")]
    Nonsense {
        /// `podman` or `docker`.
        engine: EngineKind,
        /// What it was asked to do.
        act: &'static str,
        /// What was wrong with it.
        reason: String,
    },
}

impl Error {
    /// Whether what was asked for may still be done: the engine took the request and did not answer it in a way that tells.
    pub fn is_uncertain(&self) -> bool {
        self.is_gone() || matches!(self, Self::Nonsense { .. })
    }

    /// Whether the engine must be looked for anew.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Deadline { .. })
    }
}

/// Refusals whose cause is known, and the way out of each.
fn hint(message: &str) -> String {
    let known = [
        (
            "rlimit",
            ". The engine's own limits are below what the guest asks for: lower default_ulimits in containers.conf",
        ),
        (
            "apparmor_restrict_unprivileged_userns",
            ". Allow it: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or install the engine's AppArmor profile",
        ),
        (
            "cgroups in hybrid mode",
            ". This host mounts cgroups v1 and v2 together, which crun refuses: set oci_runtime: runc in bridge.yaml, or boot with cgroup v2 only",
        ),
        (
            "newuidmap",
            ". Install newuidmap (Debian: uidmap) setuid root, and give the user a range in /etc/subuid and /etc/subgid",
        ),
        (
            "unknown or invalid runtime name",
            ". Name an OCI runtime that the engine knows, or leave oci_runtime out",
        ),
        (
            "no space left on device",
            ". The engine's disk is full: free some space, for example with its system prune command",
        ),
    ];
    let lower = message.to_lowercase();
    known
        .iter()
        .find(|(cause, _)| lower.contains(cause))
        .map(|(_, way_out)| (*way_out).to_owned())
        .unwrap_or_default()
}

/// One thing that was tried on the way to an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which engine was hoped for, where it is known.
    pub kind: Option<EngineKind>,
    /// The address, or `podman system service`.
    pub what: String,
    /// What named it, where it was not simply a usual place.
    pub origin: Option<String>,
    /// Why it is not the one.
    pub reason: String,
}

/// All that was tried, and how to get an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempts {
    /// In the order in which they were tried.
    pub tried: Vec<Attempt>,
    /// What to do, such as `systemctl --user start podman.socket`.
    pub start: String,
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no container engine answers")?;
        let mut separator = ": tried ";
        for kind in [Some(EngineKind::Podman), Some(EngineKind::Docker), None] {
            let mut inner = " (";
            for attempt in self.tried.iter().filter(|attempt| attempt.kind == kind) {
                if inner == " (" {
                    let name = kind.map_or("address", EngineKind::name);
                    write!(f, "{separator}{name}")?;
                    separator = ", ";
                }
                f.write_str(inner)?;
                inner = "; ";
                // A context that cannot be read has no address.
                let named = [attempt.origin.as_deref(), Some(attempt.what.as_str())];
                let named: Vec<&str> = named
                    .into_iter()
                    .flatten()
                    .filter(|part| !part.is_empty())
                    .collect();
                write!(f, "{}: {}", named.join(" "), attempt.reason)?;
            }
            if inner != " (" {
                f.write_str(")")?;
            }
        }
        write!(f, ". {}. Details: mcp-code-bridge doctor", self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_everything_that_was_tried() {
        let attempt = |kind, what: &str, reason: &str| Attempt {
            kind,
            what: what.to_owned(),
            origin: None,
            reason: reason.to_owned(),
        };
        let attempts = Attempts {
            tried: vec![
                attempt(
                    Some(EngineKind::Podman),
                    "/run/user/1000/podman/podman.sock",
                    "connection refused",
                ),
                attempt(
                    Some(EngineKind::Docker),
                    "/var/run/docker.sock",
                    "no such file",
                ),
            ],
            start: "Start one: systemctl --user start podman.socket".to_owned(),
        };
        assert_eq!(
            attempts.to_string(),
            "no container engine answers: tried podman (/run/user/1000/podman/podman.sock: connection refused), \
             docker (/var/run/docker.sock: no such file). Start one: systemctl --user start podman.socket. \
             Details: mcp-code-bridge doctor"
        );
    }

    #[test]
    fn a_known_refusal_names_the_way_out() {
        let error = Error::Refused {
            engine: EngineKind::Podman,
            act: "start the guest",
            status: 500,
            message: "runc: error setting rlimit type 7: operation not permitted".to_owned(),
        };
        assert!(error.to_string().contains("default_ulimits"), "{error}");
    }
}
