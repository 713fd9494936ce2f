//! Numbers, sizes and durations as people write them.

use std::time::Duration;

/// A number with commas: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number and a noun: `1 tool`, `2 tools`.
pub fn plural(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Bytes, with at most one decimal: `512 B`, `1.4 MiB`, `8 MiB`.
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (0..units.len() - 1)
        .take_while(|step| bytes >> (10 * (step + 1)) > 0)
        .count();
    let divisor = 1_u64 << (10 * step);
    let tenths = u64::try_from(u128::from(bytes) * 10 / u128::from(divisor)).unwrap_or(u64::MAX);
    if tenths.is_multiple_of(10) || tenths >= 1000 {
        format!("{} {}", tenths / 10, units[step])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, units[step])
    }
}

/// A time limit: `0.25 s`, `30 s`, `1.5 s`, and whole minutes from two on: `30 min`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds >= 120 && seconds.is_multiple_of(60) {
        format!("{} min", seconds / 60)
    } else if time.subsec_millis() == 0 && seconds > 0 {
        format!("{seconds} s")
    } else {
        let rounded = Duration::new(seconds, time.subsec_millis() * 1_000_000);
        format!("{} s", rounded.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_nouns_a_plural() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "tool"), "1 tool");
        assert_eq!(plural(0, "tool"), "0 tools");
    }

    #[test]
    fn sizes_have_at_most_one_decimal() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(8 << 20), "8 MiB");
        assert_eq!(size(1_468_006), "1.3 MiB");
        assert_eq!(size(u64::MAX), "16777215 TiB");
    }

    #[test]
    fn durations_are_in_seconds_or_whole_minutes() {
        let check = |millis: u64, text: &str| {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        };
        check(250, "0.25 s");
        check(1500, "1.5 s");
        check(30_000, "30 s");
        check(90_000, "90 s");
        check(1_800_000, "30 min");
    }
}
