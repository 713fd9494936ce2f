//! Why a guest did not start, in words for the person behind the model.

use std::collections::BTreeSet;

use super::Failure;
use crate::image;
use bridge_engine::{EngineReport, Error, Exit, Identity};
use bridge_session::LaunchError;
use bridge_settings::{Limit, Limits};
use bridge_wire::GuestReport;

/// The code of failures of the engine.
const ENGINE: &str = "E0";
/// The code of limits that are not enforced.
const LIMITS: &str = "L0";
/// The code of failures of the image.
const IMAGE: &str = "I0";
/// The code of failures of the guest's start.
const GUEST: &str = "G0";
/// How many characters of a guest's last output are quoted.
const MAX_QUOTE: usize = 600;

impl From<Failure> for LaunchError {
    fn from(failure: Failure) -> Self {
        let (code, message) = match failure {
            Failure::Engine(error) | Failure::Image(image::Error::Engine(error)) => {
                (ENGINE, error.to_string())
            }
            Failure::Image(error) => (IMAGE, error.to_string()),
            Failure::Limits(limits, report, asked) => {
                (LIMITS, unenforced_limits(&limits, report.as_ref(), &asked))
            }
            Failure::Different(engine, differences) => {
                (ENGINE, not_as_asked(&engine, &differences))
            }
            Failure::Start(error @ Error::Rejected { .. }) => {
                let hint = start_hint(&error.to_string());
                (GUEST, format!("{error}{hint}"))
            }
            Failure::Start(error) => (ENGINE, error.to_string()),
        };
        Self { code, message }
    }
}

fn unenforced_limits(limits: &[Limit], report: Option<&EngineReport>, asked: &Limits) -> String {
    let engine = report.map_or_else(|| "the engine".to_owned(), EngineReport::in_words);
    let names: Vec<&str> = limits.iter().map(|limit| limit.name()).collect();
    let values: Vec<String> = limits.iter().map(|limit| value(*limit, asked)).collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    let way_out = match report.and_then(|report| report.cgroup_version) {
        Some(2) => {
            "Have systemd delegate them (Delegate=cpu memory pids in the unit that the engine runs in)"
        }
        _ => "Use cgroup v2",
    };
    format!(
        "{engine} cannot enforce {} limit{plural} (asked {}; engine set none). Nothing was run. {way_out}, or accept it with allow_unenforced: [{}] in bridge.yaml",
        and(&names),
        values.join(", "),
        names.join(", ")
    )
}

fn value(limit: Limit, asked: &Limits) -> String {
    match limit {
        Limit::Memory => bytes(asked.memory_bytes),
        Limit::Pids => asked.pids.to_string(),
        Limit::Cpus => asked.cpus.unwrap_or_default().to_string(),
    }
}

fn bytes(count: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if count >> shift > 0 && count.trailing_zeros() >= shift {
            return format!("{} {unit}", count >> shift);
        }
    }
    format!("{count} bytes")
}

fn and(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn not_as_asked(engine: &str, differences: &[String]) -> String {
    format!(
        "{engine} does not isolate the guest as asked: {}. Nothing was run. Look for volumes, devices, env or modes in its configuration (podman: containers.conf, docker: daemon.json)",
        differences.join("; ")
    )
}

/// Compares what the kernel shows the guest with what was asked for. For a limit that the guest
/// cannot see, the engine's word counts.
pub(super) fn check(
    report: &GuestReport,
    limits: &Limits,
    allow_unenforced: &BTreeSet<Limit>,
    identity: &Identity,
) -> Result<(), LaunchError> {
    let mut differences = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            differences.push(what);
        }
    };
    for (name, capabilities) in [
        ("effective", &report.cap_eff),
        ("bounding", &report.cap_bnd),
    ] {
        let none = u64::from_str_radix(capabilities, 16) == Ok(0);
        expect(
            none,
            format!("its {name} capabilities are {capabilities:.20}, not 0"),
        );
    }
    expect(report.no_new_privs, "it may gain privileges".to_owned());
    expect(
        report.seccomp == 2,
        format!("its seccomp mode is {}, not 2", report.seccomp),
    );
    let (uid, gid) = limits.user;
    expect(
        (report.uid, report.gid) == (uid, gid),
        format!("it runs as {}:{}, not {uid}:{gid}", report.uid, report.gid),
    );
    if !differences.is_empty() {
        let message = not_as_asked(identity.kind.name(), &differences);
        return Err(LaunchError {
            code: ENGINE,
            message,
        });
    }
    let seen = [
        (Limit::Memory, report.memory_max, limits.memory_bytes),
        (Limit::Pids, report.pids_max, u64::from(limits.pids)),
    ];
    for (limit, seen, asked) in seen {
        if let Some(seen) = seen
            && seen > asked
            && !allow_unenforced.contains(&limit)
        {
            return Err(LaunchError {
                code: LIMITS,
                message: format!(
                    "{} does not enforce the {} limit (asked {asked}, the guest has {seen}). Nothing was run. Accept it with allow_unenforced: [{}] in bridge.yaml, or use another engine",
                    identity.kind,
                    limit.name(),
                    limit.name()
                ),
            });
        }
    }
    Ok(())
}

/// Says why a guest ended before it was ready, from its last output and its exit status.
pub fn explain_exit(exit: &Result<Exit, Error>, stderr: &[u8]) -> LaunchError {
    let exit = match exit {
        Ok(exit) => exit,
        Err(error) => {
            return LaunchError {
                code: ENGINE,
                message: error.to_string(),
            };
        }
    };
    let words = String::from_utf8_lossy(stderr);
    let words: Vec<char> = words.trim().chars().collect();
    let last: String = words[words.len().saturating_sub(MAX_QUOTE)..]
        .iter()
        .collect();
    let status = match exit.code {
        -1 => "ended".to_owned(),
        0 => "ended with status 0".to_owned(),
        code => format!("ended with status {code}{}", meaning(code)),
    };
    let quote = if last.is_empty() {
        " without any output".to_owned()
    } else {
        format!(" and said: {last}")
    };
    let hint = start_hint(&last);
    LaunchError {
        code: GUEST,
        message: format!("the guest {status} before it was ready{quote}{hint}"),
    }
}

fn meaning(code: i64) -> &'static str {
    match code {
        125 => " (the engine could not run it)",
        126 => " (its program cannot be executed)",
        127 => " (its program or a library of it was not found)",
        132 => " (SIGILL)",
        134 => " (SIGABRT)",
        137 => " (SIGKILL: out of memory, or killed from outside)",
        139 => " (SIGSEGV)",
        159 => " (SIGSYS: the seccomp profile forbids what it did)",
        _ => "",
    }
}

/// Advice for messages of the OCI runtime or the loader whose cause is known.
fn start_hint(words: &str) -> &'static str {
    let known = [
        (
            "exec format error",
            ". The image is for another processor than the engine's",
        ),
        (
            "GLIBC_",
            ". A library in the image, or an init of the engine, was made for a newer glibc",
        ),
        (
            "Could not start dynamically linked",
            ". A program of the host was put into the guest",
        ),
        (
            "no such file or directory",
            ". Check the image: mcp-code-bridge image verify --deep",
        ),
    ];
    known
        .iter()
        .find(|(cause, _)| words.contains(cause))
        .map_or("", |(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_settings::EngineKind;

    fn identity() -> Identity {
        Identity {
            kind: EngineKind::Podman,
            version: "4.3.1".to_owned(),
            api_version: "1.41".to_owned(),
            endpoint: "unix:///podman.sock".to_owned(),
            origin: "test".to_owned(),
            architecture: "amd64".to_owned(),
        }
    }

    #[test]
    fn unenforced_limits_are_named() {
        let report = EngineReport {
            identity: identity(),
            rootless: true,
            cgroup_version: Some(1),
            runtime: "runc".to_owned(),
            unenforced: Limit::ALL.to_vec(),
        };
        let both = [Limit::Memory, Limit::Pids];
        let failure = Failure::Limits(both.to_vec(), Some(report), Limits::default());
        let error = LaunchError::from(failure);
        assert_eq!(error.code, "L0");
        assert_eq!(
            error.message,
            "podman rootless on cgroup v1 cannot enforce memory and pids limits (asked 512 MiB, 128; engine set none). \
             Nothing was run. Use cgroup v2, or accept it with allow_unenforced: [memory, pids] in bridge.yaml"
        );
    }

    fn hardened() -> GuestReport {
        GuestReport {
            cap_eff: "0000000000000000".to_owned(),
            cap_bnd: "0000000000000000".to_owned(),
            no_new_privs: true,
            seccomp: 2,
            uid: 65534,
            gid: 65534,
            memory_max: Some(512 << 20),
            pids_max: None,
        }
    }

    #[test]
    fn kernel_view_of_the_guest_counts() {
        let check = |change: &dyn Fn(&mut GuestReport), part: &str| {
            let mut report = hardened();
            change(&mut report);
            let allowed = BTreeSet::from([Limit::Pids]);
            let result = super::check(&report, &Limits::default(), &allowed, &identity());
            match result {
                Ok(()) => assert_eq!(part, ""),
                Err(error) => assert!(!part.is_empty() && error.message.contains(part), "{error}"),
            }
        };
        check(&|_| {}, "");
        check(
            &|it| it.cap_bnd = "00000000a80425fb".to_owned(),
            "bounding capabilities",
        );
        check(
            &|it| it.cap_eff = "junk".to_owned(),
            "effective capabilities",
        );
        check(&|it| it.no_new_privs = false, "may gain privileges");
        check(&|it| it.seccomp = 0, "seccomp mode is 0");
        check(&|it| it.uid = 0, "runs as 0:65534");
        check(
            &|it| it.memory_max = Some(513 << 20),
            "does not enforce the memory limit",
        );
        check(&|it| it.memory_max = None, "");
        check(&|it| it.pids_max = Some(100_000), "");
    }

    #[test]
    fn early_end_is_explained() {
        let explain = |code, words: &str| {
            let exit = Exit {
                code,
                out_of_memory: false,
            };
            explain_exit(&Ok(exit), words.as_bytes()).message
        };
        assert_eq!(
            explain(
                1,
                "/usr/bin/python3.14: /lib/libm.so.6: version `GLIBC_2.43' not found\n"
            ),
            "the guest ended with status 1 before it was ready and said: /usr/bin/python3.14: /lib/libm.so.6: version \
             `GLIBC_2.43' not found. A library in the image, or an init of the engine, was made for a newer glibc"
        );
        assert_eq!(
            explain(127, ""),
            "the guest ended with status 127 (its program or a library of it was not found) before it was ready without \
             any output"
        );
        assert!(explain(1, &"x".repeat(10_000)).len() < 800);
    }
}
