//! Waits for conditions with a deadline. Nothing else in the tests sleeps.

use std::time::{Duration, Instant};

/// A time limit, multiplied by `TEST_TIME_FACTOR`, which the slow virtual machine sets.
#[must_use]
pub fn limit(seconds: u64) -> Duration {
    let factor = std::env::var("TEST_TIME_FACTOR")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    Duration::from_secs(seconds * factor)
}

/// Polls until `condition` returns a value.
///
/// # Panics
/// After `within`, with `what` was waited for.
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
