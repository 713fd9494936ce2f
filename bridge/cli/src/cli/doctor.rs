//! `doctor`: prints the checks as a table for people or as JSON.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Args;

use super::bridge::Bridge;
use super::{block_on, exit, host, telemetry, terminal};
use crate::doctor::{Check, Outcome, examine, of_settings_error};
use bridge_catalog::Catalog;
use bridge_common::host::HostEnv;
use bridge_settings::{self as settings, Settings};

/// Checks everything a sandbox needs, and says how to fix what is wrong.
///
/// Exit code: 0 no check failed (warnings are allowed), 1 a check failed, 2 wrong usage.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn run(&self, settings: &Settings) -> ExitCode {
        telemetry::start_quietly(settings);
        let checks = block_on(async {
            let bridge = Bridge::new(settings);
            let catalog = host::search_paths(settings).map(Catalog::load);
            let checks = examine(
                settings,
                bridge.launcher.finder(),
                bridge.launcher.images(),
                catalog.as_ref().map_err(String::as_str),
            )
            .await;
            bridge.close().await;
            checks
        });
        match checks {
            Ok(checks) => self.print(&settings.host, &checks),
            Err(code) => code,
        }
    }

    /// Reports settings that cannot be loaded; nothing else can be checked then.
    pub(super) fn bad_settings(&self, host: &HostEnv, error: &settings::Error) -> ExitCode {
        self.print(host, &of_settings_error(error))
    }

    fn print(&self, host: &HostEnv, checks: &[Check]) -> ExitCode {
        let coloured = terminal::coloured(host, std::io::stdout().is_terminal());
        let text = if self.json {
            json(checks)
        } else {
            table(checks, coloured)
        };
        let failed = checks.iter().any(|check| check.outcome == Outcome::Fail);
        match terminal::out(text.as_bytes()) {
            Ok(()) if !failed => ExitCode::SUCCESS,
            Ok(()) => exit::FAILED.into(),
            Err(error) => {
                terminal::say(&format!("cannot write: {error}"));
                exit::FAILED.into()
            }
        }
    }
}

fn json(checks: &[Check]) -> String {
    let value = serde_json::json!({
        "ok": checks.iter().all(|check| check.outcome != Outcome::Fail),
        "checks": checks,
    });
    format!("{value:#}\n")
}

fn table(checks: &[Check], coloured: bool) -> String {
    let mut text = String::new();
    for check in checks {
        let word = check.outcome.word();
        let word = match (coloured, check.outcome) {
            (false, _) => format!("{word:<5}"),
            (true, Outcome::Ok) => format!("\x1b[32m{word:<5}\x1b[0m"),
            (true, Outcome::Warn) => format!("\x1b[33m{word:<5}\x1b[0m"),
            (true, Outcome::Fail) => format!("\x1b[31m{word:<5}\x1b[0m"),
        };
        let mut lines = check.found.lines();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(text, "{:<9} {word} {first:<58} {}", check.name, check.code);
        for line in lines {
            let _ = writeln!(text, "                {line}");
        }
        if check.outcome != Outcome::Ok {
            let _ = writeln!(text, "                expected: {}", check.expected);
            for line in check.fix.lines() {
                let _ = writeln!(text, "                fix: {line}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_json_show_the_same_checks() {
        let checks = [
            Check::ok(
                "engine",
                "E0",
                "podman 5.4.2, rootless, cgroup v2, crun",
                "an engine that answers",
            ),
            Check {
                outcome: Outcome::Fail,
                fix: "use cgroup v2\nor accept it".to_owned(),
                ..Check::ok(
                    "limits",
                    "L0",
                    "memory and pids are not enforced",
                    "all limits enforced",
                )
            },
        ];
        insta::assert_snapshot!(format!("{}{}", table(&checks, false), json(&checks)));
    }
}
