//! What can go wrong with an engine, in words for the person who has to fix it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use bridge_common::error::io_reason;
use bridge_settings::EngineKind;

/// What can go wrong with an engine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No engine answers at any of the addresses that were tried.
    #[error("{0}")]
    NotFound(Attempts),
    /// The engine answered before and no longer does.
    #[error(
        "{engine} at {endpoint} no longer answers ({reason}) while asked to {act}. Start it again; details: mcp-code-bridge doctor"
    )]
    Gone {
        /// Which kind of engine.
        engine: EngineKind,
        /// Where the engine answers.
        endpoint: String,
        /// The request, as the end of "asked to".
        act: &'static str,
        /// Why the connection failed.
        reason: String,
    },
    /// The engine took too long.
    #[error("{engine} at {endpoint} did not {act} within {} s. Is its machine overloaded? Details: mcp-code-bridge doctor", after.as_secs())]
    Deadline {
        /// Which kind of engine.
        engine: EngineKind,
        /// Where the engine answers.
        endpoint: String,
        /// The request, as the end of "asked to".
        act: &'static str,
        /// The time limit of the request.
        after: Duration,
    },
    /// The engine refused the request.
    #[error("{engine} could not {act}: {message}{}", cause.map_or("", RejectionCause::way_out))]
    Rejected {
        /// Which kind of engine.
        engine: EngineKind,
        /// The request, as the end of "asked to".
        act: &'static str,
        /// The HTTP status; 0 where the refusal came inside a stream.
        status: u16,
        /// Why, where the engine's words are known.
        cause: Option<RejectionCause>,
        /// What the engine said about it.
        message: String,
    },
    /// The engine's machine cannot read the seccomp profile, and a guest is not run without it.
    #[error(
        "podman at {endpoint} cannot read the seccomp profile {path} on its machine ({message}). Nothing was run. Copy that file to the same path there, or use an engine on this machine"
    )]
    SeccompUnreadable {
        /// Where the engine answers.
        endpoint: String,
        /// Where the profile is on this machine.
        path: String,
        /// The engine's own words.
        message: String,
    },
    /// The seccomp profile cannot be written for podman to read.
    #[error(
        "cannot write the seccomp profile for podman ({reason}). Nothing was run. Make one of these folders writable: {places}"
    )]
    SeccompUnwritable {
        /// Folders that were tried.
        places: String,
        /// Why the last failed.
        reason: String,
    },
    /// There are neither guests nor a seccomp profile for the engine's processor.
    #[error("{engine} at {endpoint} runs on {architecture}; guests exist for amd64 and arm64")]
    Architecture {
        /// Which kind of engine.
        engine: EngineKind,
        /// Where the engine answers.
        endpoint: String,
        /// The processor that the engine named.
        architecture: String,
    },
    /// The image archive on this machine cannot be read.
    #[error("cannot read the image archive: {reason}")]
    Archive {
        /// What the file system said.
        reason: String,
    },
    /// The engine gave an answer that cannot be read.
    #[error("{engine} gave an invalid answer when asked to {act}: {reason}")]
    Nonsense {
        /// Which kind of engine.
        engine: EngineKind,
        /// The request, as the end of "asked to".
        act: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
}

impl Error {
    /// Whether the engine may still do what it was asked for: it gave no answer that says
    /// otherwise.
    pub fn is_uncertain(&self) -> bool {
        self.is_gone() || matches!(self, Self::Nonsense { .. })
    }

    /// Whether the engine has to be searched for again.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Deadline { .. })
    }
}

/// Why an engine refused a request, where its words are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionCause {
    /// The engine's own resource limits are below those of the guest.
    ResourceLimits,
    /// `AppArmor` restricts user namespaces.
    AppArmor,
    /// Control groups v1 and v2 are mounted together.
    HybridCgroups,
    /// `newuidmap` is missing or not allowed to map users.
    UserMapping,
    /// The OCI runtime that was asked for is not configured.
    UnknownRuntime,
    /// The engine's disk is full.
    DiskFull,
}

impl RejectionCause {
    /// What to do about it, as the end of an error message.
    fn way_out(self) -> &'static str {
        match self {
            Self::ResourceLimits => {
                ". The engine's own limits are below what the guest asks for: lower default_ulimits in containers.conf"
            }
            Self::AppArmor => {
                ". Allow it: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or install the engine's AppArmor profile"
            }
            Self::HybridCgroups => {
                ". This host mounts cgroups v1 and v2 together, which crun refuses: set oci_runtime: runc in bridge.yaml, or boot with cgroup v2 only"
            }
            Self::UserMapping => {
                ". Install newuidmap (Debian: uidmap) setuid root, and give the user a range in /etc/subuid and /etc/subgid"
            }
            Self::UnknownRuntime => {
                ". Name an OCI runtime that the engine knows, or leave oci_runtime out"
            }
            Self::DiskFull => {
                ". The engine's disk is full: free some space, for example with its system prune command"
            }
        }
    }
}

/// Why an address leads to no usable engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The text is not an address.
    #[error("{0}")]
    Address(String),
    /// The connection could not be made, or broke.
    #[error("{reason}")]
    Io {
        /// Which failure it was.
        kind: ErrorKind,
        /// The failure in few words.
        reason: String,
    },
    /// Something else listens there.
    #[error("what answers is not a container engine")]
    NotAnEngine,
    /// The engine answers a ping with a failure.
    #[error("answers with {0}")]
    Status(String),
    /// No answer came in time.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// A file of the client's certificate cannot be read.
    #[error("{}: {problem}", path.display())]
    Certificate {
        /// The file that cannot be read.
        path: PathBuf,
        /// The failure in few words.
        problem: String,
    },
    /// The client of the API failed.
    #[error("{0}")]
    Client(String),
    /// Another kind of engine answers than was asked for.
    #[error("is {found}, and MCP_BRIDGE_RUNTIME asks for {wanted}")]
    OtherKind {
        /// The engine that answers.
        found: EngineKind,
        /// The engine that the settings ask for.
        wanted: EngineKind,
    },
    /// Podman could not be started, or guests cannot run on the engine.
    #[error("{0}")]
    Unusable(String),
}

impl ConnectError {
    /// The connection was closed from the other side.
    pub(crate) fn closed() -> Self {
        io::Error::from(ErrorKind::UnexpectedEof).into()
    }

    /// The user may not use the address.
    pub(crate) fn is_permission_denied(&self) -> bool {
        matches!(
            self,
            Self::Io {
                kind: ErrorKind::PermissionDenied,
                ..
            }
        )
    }
}

impl From<&io::Error> for ConnectError {
    fn from(error: &io::Error) -> Self {
        Self::Io {
            kind: error.kind(),
            reason: io_reason(error),
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::from(&error)
    }
}

/// One thing that was tried on the way to an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The kind of engine that was expected there, where it is known.
    pub kind: Option<EngineKind>,
    /// The address, or `podman system service`.
    pub what: String,
    /// What named the address, unless it is a usual place.
    pub origin: Option<String>,
    /// Why it was not used.
    pub reason: ConnectError,
}

/// Everything that was tried, and how to get an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempts {
    /// The attempts, in order.
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
    fn error_lists_every_attempt() {
        let attempt = |kind, what: &str, reason: ErrorKind| Attempt {
            kind,
            what: what.to_owned(),
            origin: None,
            reason: io::Error::from(reason).into(),
        };
        let attempts = Attempts {
            tried: vec![
                attempt(
                    Some(EngineKind::Podman),
                    "/run/user/1000/podman/podman.sock",
                    ErrorKind::ConnectionRefused,
                ),
                attempt(
                    Some(EngineKind::Docker),
                    "/var/run/docker.sock",
                    ErrorKind::NotFound,
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
    fn known_rejection_says_what_to_do() {
        let error = Error::Rejected {
            engine: EngineKind::Podman,
            act: "start the guest",
            status: 500,
            cause: Some(RejectionCause::ResourceLimits),
            message: "runc: error setting rlimit type 7: operation not permitted".to_owned(),
        };
        assert!(error.to_string().contains("default_ulimits"), "{error}");
    }
}
