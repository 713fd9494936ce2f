//! The check of the OCI runtime (E5): whether its version has known escapes.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::{Check, Outcome};
use bridge_engine::Engine;
use bridge_settings::Settings;

const FIXED: &str = "runc 1.2.8, 1.3.3, 1.4.0 or later";
/// The time limit of a program that prints its version.
const DEADLINE: Duration = Duration::from_secs(5);

/// Checks the runtime on this machine, if the engine is on this machine too and uses runc.
pub(super) async fn examine(engine: &dyn Engine, settings: &Settings) -> Option<Check> {
    if !engine.identity().endpoint.starts_with("unix://") {
        return None;
    }
    let runtime = match &settings.engine.runtime {
        Some(runtime) => runtime.clone(),
        None => engine.report().await.ok()?.runtime,
    };
    let program = if runtime.contains('/') {
        runtime.as_str()
    } else {
        "runc"
    };
    if !runtime.ends_with("runc") {
        return None;
    }
    judge(&version_of(program).await?)
}

async fn version_of(program: &str) -> Option<String> {
    let mut child = tokio::process::Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut text = Vec::new();
    let output = child.stdout.take()?;
    tokio::time::timeout(DEADLINE, output.take(4096).read_to_end(&mut text))
        .await
        .ok()?
        .ok()?;
    String::from_utf8(text).ok()
}

/// Reads what `runc --version` prints. The escapes are races between mounts and the start
/// (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881), and before 1.1.12 an open descriptor
/// (CVE-2024-21626).
fn judge(output: &str) -> Option<Check> {
    let word = output.lines().next()?.strip_prefix("runc version ")?;
    let numbers: Vec<u32> = word
        .split(['.', '-', '+', '~'])
        .take(3)
        .map_while(|number| number.parse().ok())
        .collect();
    let [major, minor, patch] = numbers[..] else {
        return None;
    };
    let is_candidate = word.contains("-rc");
    let vulnerable = match (major, minor, patch) {
        (0, ..) | (1, 0 | 1, _) => true,
        (1, 2, patch) => patch < 8,
        (1, 3, patch) => patch < 3,
        (1, 4, 0) => is_candidate && (word.contains("-rc.1") || word.contains("-rc.2")),
        _ => false,
    };
    let check = Check::ok("runtime", "E5", format!("runc {word}"), FIXED);
    if !vulnerable {
        return Some(check);
    }
    let known = if (major, minor) < (1, 1) || (major, minor) == (1, 1) && patch < 12 {
        "CVE-2024-21626, CVE-2025-31133, CVE-2025-52565, CVE-2025-52881"
    } else {
        "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881"
    };
    let found = format!("runc {word} has known container escapes: {known}");
    Some(Check { found, ..check }.but(
        Outcome::Warn,
        "update runc; your distribution may have fixed it under the old version number: see its security tracker",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_judged() {
        let check = |word: &str, expected: Option<Outcome>| {
            let judged = judge(&format!("runc version {word}\ncommit: x\n"));
            assert_eq!(judged.map(|check| check.outcome), expected, "{word}");
        };
        for vulnerable in [
            "1.0.0-rc93",
            "1.1.5+ds1",
            "1.1.15",
            "1.2.7",
            "1.3.2",
            "1.4.0-rc.2",
        ] {
            check(vulnerable, Some(Outcome::Warn));
        }
        for fixed in ["1.2.8", "1.3.3", "1.4.0-rc.3", "1.4.0", "1.4.1", "2.0.0"] {
            check(fixed, Some(Outcome::Ok));
        }
        check("unknown", None);
        assert_eq!(judge("crun version 1.21\n"), None);
        assert!(
            judge("runc version 1.1.5\n")
                .expect("judged")
                .found
                .contains("CVE-2024-21626")
        );
    }
}
