//! Waiting for conditions with a deadline. The only place where a test's thread rests.

use std::time::{Duration, Instant};

/// A time limit, stretched where the machine is known to be slow (`TEST_TIME_FACTOR`, set in the virtual machine).
#[must_use]
pub fn limit(seconds: u64) -> Duration {
    let factor = std::env::var("TEST_TIME_FACTOR")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    Duration::from_secs(seconds * factor)
}

/// Polls until `condition` yields something.
///
/// # Panics
/// When `within` has passed; the panic names `what`.
pub fn until<T>(within: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(
            start.elapsed() < within,
            "after {within:?} still waiting for: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
