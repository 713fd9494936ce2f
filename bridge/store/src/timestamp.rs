//! Points in time as they are written down: seconds for programs, a date for people.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// A point in time, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// This one.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// As Python's `time.time()` has it.
    pub fn epoch(self) -> f64 {
        Duration::from_micros(self.0).as_secs_f64()
    }

    /// From such a number; nonsense becomes 1970.
    pub fn from_epoch(seconds: f64) -> Self {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Self(u64::try_from(time.as_micros()).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    /// `2026-11-29T21:57:00Z`, and with `{:.3}` as many digits of the second: `2026-11-29T21:57:00.042Z`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        let (year, month, day) = date(seconds / DAY);
        let rest = seconds % DAY;
        write!(
            formatter,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            rest / 3600,
            rest / 60 % 60,
            rest % 60
        )?;
        if let Some(digits @ 1..) = formatter.precision() {
            let fraction = format!("{:06}", self.0 % 1_000_000);
            write!(formatter, ".{}", &fraction[..digits.min(6)])?;
        }
        formatter.write_str("Z")
    }
}

/// The date of a day since 1970, in the proleptic Gregorian calendar: years begin in March, so that the odd day is last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds: u64, expected: &str| {
            assert_eq!(Timestamp(seconds * 1_000_000).to_string(), expected);
        };
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_709_251_199, "2024-02-29T23:59:59Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
        assert_eq!(Timestamp::from_epoch(f64::NAN).seconds(), 0);
        assert_eq!(Timestamp::from_epoch(-1.0).seconds(), 0);
        assert!((Timestamp::from_epoch(1.5).epoch() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn days_have_their_dates() {
        let check = |days: u64, expected: (u64, u64, u64)| assert_eq!(date(days), expected);
        check(0, (1970, 1, 1));
        check(59, (1970, 3, 1));
        check(11_016, (2000, 2, 29));
        check(11_017, (2000, 3, 1));
        check(20_786, (2026, 11, 29));
        check(47_540, (2100, 2, 28));
        check(47_541, (2100, 3, 1));
        let time = UNIX_EPOCH + Duration::from_millis(1_795_989_769_042);
        let written = format!("{:.3}", Timestamp::from(time));
        assert_eq!(written, "2026-11-29T22:02:49.042Z");
    }
}
