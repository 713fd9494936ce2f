//! What `tests/setup` has made for tests, and variables name.

use std::env;
use std::path::PathBuf;

/// The folder that a variable names. Without it a printed skip, and a failure in CI unless that asks for a part of the suite.
///
/// `what` is missed, `why` it has to be there.
///
/// # Panics
/// In CI, where the variable is not set.
#[must_use]
#[expect(
    clippy::print_stderr,
    reason = "a skipped test says so in the test's output"
)]
pub fn folder(variable: &str, what: &str, why: &str) -> Option<PathBuf> {
    let folder = env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    assert!(
        folder.is_some()
            || env::var_os("CI").is_none()
            || env::var_os("TEST_ENGINES_PARTIAL").is_some(),
        "{variable} is not set, and {why}"
    );
    if folder.is_none() {
        eprintln!("SKIPPED: no {what} ({variable} is not set)");
    }
    folder
}
