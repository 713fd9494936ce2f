//! Jobs of the official Python SDK (`tests/sdk`), each run to its end with a bridge as its server.

use std::process::{Command, Stdio};

use crate::bridge::Builder;

/// Runs a job; returns what it printed.
///
/// # Panics
/// When it cannot be run or says that something failed.
#[must_use]
pub fn job(builder: Builder<'_>, script: &str, arguments: &[&str]) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let python =
        std::env::var("TEST_PYTHON").unwrap_or_else(|_| format!("{folder}/.cache/venv/bin/python"));
    let (bridge, _home) = builder.command();
    let variables = bridge.get_envs();
    let output = Command::new(python)
        .arg("-B")
        .arg(format!("{folder}/sdk/{script}"))
        .args(arguments)
        .arg("--")
        .arg(bridge.get_program())
        .args(bridge.get_args())
        .env_clear()
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
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
