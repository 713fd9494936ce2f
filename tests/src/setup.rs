//! Folders that `tests/setup` has made for tests, named by environment variables.

use std::env;
use std::path::PathBuf;

/// The folder that a variable names. Without it the test fails in CI, unless only a part of the
/// suite is asked for, and is skipped elsewhere with a printed line.
///
/// `what` is missing then, and `why` says why it must be there.
///
/// # Panics
/// In CI, if the variable is not set.
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
