//! Values as people write them: times, sizes, switches, addresses.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::Limit;

/// Says that a value is not wanted, where leaving it out would not do.
pub(super) const NONE: &str = "none";

/// A time: `30` and `30s` are seconds; `ms`, `m`, `h` and `d` work too. Whole numbers only.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let number: u64 = number.parse().ok()?;
    let per_unit = match unit.as_str() {
        "ms" => return Some(Duration::from_millis(number)),
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        _ => return None,
    };
    number.checked_mul(per_unit).map(Duration::from_secs)
}

/// A size in bytes: a bare number is bytes; `k`, `m`, `g`, `t` count in 1024s, with or without `B`
/// or `iB`, as the engines do. Decimals work where the result is whole: `1.5g`.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole_bytes = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    if fraction.is_empty() {
        // "1." is a slip, not a number.
        return (!number.ends_with('.')).then_some(whole_bytes);
    }
    if fraction.len() > 6 {
        return None;
    }
    let digits = u32::try_from(fraction.len()).ok()?;
    let scaled = u128::from(fraction.parse::<u64>().ok()?) << shift;
    let scale = u128::from(10_u64.pow(digits));
    if !scaled.is_multiple_of(scale) {
        return None;
    }
    whole_bytes.checked_add(u64::try_from(scaled / scale).ok()?)
}

/// Digits (and a point), then letters in lower case; blanks around and between them are allowed.
fn split_unit(text: &str) -> Option<(&str, String)> {
    let text = text.trim();
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.starts_with(|character: char| character.is_ascii_digit()) || unit.len() > 16 {
        return None;
    }
    Some((number, unit.trim().to_ascii_lowercase()))
}

pub(super) fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Comma- or blank-separated names; `none` is the empty list.
pub(super) fn limits(text: &str) -> Option<BTreeSet<Limit>> {
    let lower = text.to_ascii_lowercase();
    if lower == NONE {
        return Some(BTreeSet::new());
    }
    lower
        .split([',', ' '])
        .filter(|name| !name.is_empty())
        .map(|name| Limit::ALL.into_iter().find(|limit| limit.name() == name))
        .collect()
}

pub(super) fn cpus(text: &str, most: f64) -> Option<f64> {
    // `f64` also reads "inf", "nan" and "1e3"; people do not mean those.
    let plain = text
        .chars()
        .all(|character| character.is_ascii_digit() || character == '.');
    let value: f64 = plain.then(|| text.parse().ok()).flatten()?;
    (value > 0.0 && value <= most).then_some(value)
}

pub(super) fn user(text: &str) -> Option<(u32, u32)> {
    let id = |text: &str| {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        plain
            .then(|| text.parse::<u32>().ok())
            .flatten()
            .filter(|id| *id != 0 && *id != u32::MAX)
    };
    match text.split_once(':') {
        Some((user, group)) => Some((id(user)?, id(group)?)),
        None => id(text).map(|user| (user, user)),
    }
}

pub(super) fn engine_address(text: &str) -> bool {
    let known = ["unix", "tcp", "http", "https", "ssh", "npipe"];
    text.split_once("://")
        .is_some_and(|(scheme, rest)| known.contains(&scheme) && !rest.is_empty())
}

pub(super) fn oci_runtime(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(plain)
}

/// The name of an image, pinned or not.
pub(super) fn image_name(text: &str) -> bool {
    (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// An image pinned by digest.
pub(super) fn pinned(reference: &str) -> bool {
    let digest = reference
        .rsplit_once('@')
        .map_or(reference, |(_, digest)| digest);
    digest.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// An address that only this machine reaches: over HTTP nothing is encrypted.
pub(super) fn loopback(text: &str) -> Option<SocketAddr> {
    let address: SocketAddr = text.parse().ok()?;
    address.ip().is_loopback().then_some(address)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times() {
        let check = |text, expected| assert_eq!(parse_duration(text), expected, "{text:?}");
        check("30", Some(Duration::from_secs(30)));
        check("30s", Some(Duration::from_secs(30)));
        check(" 30 S ", Some(Duration::from_secs(30)));
        check("2m", Some(Duration::from_secs(120)));
        check("1h", Some(Duration::from_secs(3600)));
        check("500ms", Some(Duration::from_millis(500)));
        check("0", Some(Duration::ZERO));
        for bad in [
            "",
            "s",
            "-1",
            "1.5s",
            "1 2",
            "2x",
            "1e3",
            "30s30",
            "+3",
            "99999999999999999999",
            "1d1",
            "٣",
        ] {
            check(bad, None);
        }
        check("18446744073709551615d", None);
    }

    #[test]
    fn sizes() {
        let check = |text, expected| assert_eq!(parse_size(text), expected, "{text:?}");
        check("512m", Some(512 << 20));
        check("512MiB", Some(512 << 20));
        check("512 MB", Some(512 << 20));
        check("1g", Some(1 << 30));
        check("1.5g", Some(3 << 29));
        check("1024", Some(1024));
        check("0", Some(0));
        for bad in [
            "",
            "m",
            "-1m",
            "1.m",
            ".5m",
            "1..5m",
            "1.0000001g",
            "0.3b",
            "1mm",
            "99999999999g",
            "1p",
            "0x10",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn words() {
        assert_eq!(switch("ON"), Some(true));
        assert_eq!(switch("0"), Some(false));
        assert_eq!(switch("maybe"), None);
        assert_eq!(
            limits("memory, pids"),
            Some([Limit::Memory, Limit::Pids].into())
        );
        assert_eq!(limits("none"), Some(BTreeSet::new()));
        assert_eq!(limits("memory,disk"), None);
        assert_eq!(user("1000"), Some((1000, 1000)));
        assert_eq!(user("1000:100"), Some((1000, 100)));
        for bad in [
            "0",
            "0:1",
            "1:0",
            "root",
            "1:",
            ":1",
            "-1",
            "+1",
            "4294967295",
            "1:2:3",
        ] {
            assert_eq!(user(bad), None, "{bad}");
        }
        assert_eq!(cpus("1.5", 1024.0), Some(1.5));
        for bad in ["0", "inf", "nan", "1e3", "-1", "1025", ""] {
            assert_eq!(cpus(bad, 1024.0), None, "{bad}");
        }
        assert!(pinned(&format!("guest@sha256:{}", "0a".repeat(32))));
        assert!(!pinned("guest:latest"));
        assert!(!pinned(&format!("sha256:{}", "0A".repeat(32))));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,40}") {
            let _ = (parse_duration(&text), parse_size(&text), user(&text), cpus(&text, 8.0), limits(&text));
        }

        #[test]
        fn whole_times_and_sizes_round_trip(number in 0_u64..1 << 32) {
            prop_assert_eq!(parse_duration(&format!("{number}s")), Some(Duration::from_secs(number)));
            prop_assert_eq!(parse_size(&format!("{number}k")), Some(number << 10));
        }
    }

    #[test]
    fn only_loopback_addresses_are_listened_on() {
        for good in ["127.0.0.1:8722", "127.1.2.3:0", "[::1]:80"] {
            assert!(loopback(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "8722",
            "127.0.0.1",
            "0.0.0.0:80",
            "[::]:80",
            "192.0.2.1:80",
            "localhost:80",
            "127.0.0.1:99999",
        ] {
            assert!(loopback(bad).is_none(), "{bad}");
        }
    }
}
