//! Points in time as they are written down: seconds for programs, a date for people.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time since 1970, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The current time.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        u64::try_from(self.0.as_second()).unwrap_or(0)
    }

    /// Seconds since 1970, as Python's `time.time()` has them.
    pub fn epoch(self) -> f64 {
        Duration::from_micros(u64::try_from(self.0.as_microsecond()).unwrap_or(0)).as_secs_f64()
    }

    /// From seconds since 1970; an impossible number becomes 1970.
    pub fn from_epoch(seconds: f64) -> Self {
        Self::since_epoch(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    fn since_epoch(time: Duration) -> Self {
        let microseconds = i64::try_from(time.as_micros()).unwrap_or(0);
        Self(jiff::Timestamp::from_microsecond(microseconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self::since_epoch(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl fmt::Display for Timestamp {
    /// `2026-11-29T21:57:00Z`, and with `{:.3}` milliseconds: `2026-11-29T21:57:00.042Z`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = formatter.precision().unwrap_or(0);
        write!(formatter, "{:.digits$}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_as_dates() {
        let check = |seconds: u64, expected: &str| {
            let time = Timestamp::since_epoch(Duration::from_secs(seconds));
            assert_eq!(time.to_string(), expected);
        };
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_709_251_199, "2024-02-29T23:59:59Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
        let time = UNIX_EPOCH + Duration::from_millis(1_795_989_769_042);
        let written = format!("{:.3}", Timestamp::from(time));
        assert_eq!(written, "2026-11-29T22:02:49.042Z");
        assert_eq!(Timestamp::from(time).to_string(), "2026-11-29T22:02:49Z");
    }

    #[test]
    fn impossible_numbers_become_1970() {
        for seconds in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(Timestamp::from_epoch(seconds).seconds(), 0);
        }
        assert!((Timestamp::from_epoch(1.5).epoch() - 1.5).abs() < 1e-9);
    }
}
