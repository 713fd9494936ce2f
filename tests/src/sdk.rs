//! Runs jobs of the official Python SDK (`tests/sdk`) to their end.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::bridge::Builder;

/// Runs a job with a bridge as its server and returns what it printed.
///
/// # Panics
/// If it cannot be run or reports a failure.
#[must_use]
pub fn job(builder: Builder<'_>, script: &str, arguments: &[&str]) -> String {
    let (bridge, _home) = builder.command();
    let mut command: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    command.extend([OsStr::new("--"), bridge.get_program()]);
    command.extend(bridge.get_args());
    let variables = bridge.get_envs();
    let variables = variables.filter_map(|(name, value)| Some((name, value?)));
    run(script, &command, variables)
}

/// Runs a job with only these variables and returns what it printed.
///
/// # Panics
/// If it cannot be run or reports a failure.
pub fn run<N: AsRef<OsStr>, V: AsRef<OsStr>>(
    script: &str,
    arguments: &[&OsStr],
    variables: impl IntoIterator<Item = (N, V)>,
) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let python =
        std::env::var("TEST_PYTHON").unwrap_or_else(|_| format!("{folder}/.cache/venv/bin/python"));
    let output = Command::new(python)
        .arg("-B")
        .arg(format!("{folder}/sdk/{script}"))
        .args(arguments)
        .env_clear()
        .envs(variables)
        .stdin(Stdio::null())
        .output()
        .expect("the tests' Python can be started");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{script} {arguments:?} failed:\n{told}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    told
}
