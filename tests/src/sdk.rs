//! The official Python SDK as the client: scripts in `tests/sdk`, run by the tests' Python.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::EngineUnderTest;
use crate::bridge::Builder;

/// Runs a script of `tests/sdk` against a bridge for this engine, which it starts. It checks for itself, and says so.
///
/// # Panics
/// With all that it has said, when a check failed.
pub fn run(engine: &EngineUnderTest, name: &str, options: &[&str]) {
    let (bridge, _home) = Builder::new(Some(engine)).command();
    let mut command: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    command.extend(["--engine", &engine.address, "--"].map(OsStr::new));
    command.push(bridge.get_program());
    command.extend(bridge.get_args());
    let variables = bridge.get_envs();
    script(
        name,
        &command,
        variables.filter_map(|(name, value)| Some((name, value?))),
    );
}

/// Runs a script of `tests/sdk` with these variables alone.
///
/// # Panics
/// With all that it has said, when a check failed.
pub fn script<N: AsRef<OsStr>, V: AsRef<OsStr>>(
    name: &str,
    options: &[impl AsRef<OsStr>],
    variables: impl IntoIterator<Item = (N, V)>,
) {
    let python = std::env::var("TEST_PYTHON").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/.cache/venv/bin/python").to_owned()
    });
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sdk");
    let output = Command::new(python)
        .arg("-B")
        .arg(format!("{folder}/{name}"))
        .args(options)
        .env_clear()
        .envs(variables)
        .stdin(Stdio::null())
        .output()
        .expect("the tests' Python can be started; tests/setup/python.sh makes it");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains(" 0 failed"),
        "{name} failed:\n{told}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
