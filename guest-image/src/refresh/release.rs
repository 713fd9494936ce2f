//! Reads Debian's `Release` file: at what time the snapshot archive has what it lists.

use jiff::ToSpan as _;
use jiff::civil::DateTime;

/// Hours between the release and the snapshot time that is locked. Mirrors and the archive get a
/// release after a few hours, and replaced files stay available for more than a day.
const HOURS: i64 = 12;

/// The snapshot time for a release, as the archive writes it: `20261030T200801Z`.
pub(super) fn snapshot_time(release: &str) -> Option<String> {
    let date = release
        .lines()
        .find_map(|line| line.strip_prefix("Date: "))?;
    let date = DateTime::strptime("%a, %d %b %Y %H:%M:%S UTC", date).ok()?;
    let snapshot = date.checked_add(HOURS.hours()).ok()?;
    Some(snapshot.strftime("%Y%m%dT%H%M%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(date: &str, expected: Option<&str>) {
        let release =
            format!("Origin: Debian\nDate: {date}\nValid-Until: Fri, 06 Nov 2026 08:08:01 UTC\n");
        assert_eq!(snapshot_time(&release).as_deref(), expected, "{date}");
    }

    #[test]
    fn snapshot_is_half_a_day_after_the_release() {
        check("Fri, 30 Oct 2026 08:08:01 UTC", Some("20261030T200801Z"));
        check("Sat, 31 Oct 2026 20:08:01 UTC", Some("20261101T080801Z"));
        check("Thu, 31 Dec 2026 14:00:00 UTC", Some("20270101T020000Z"));
        check("Mon, 28 Feb 2028 14:00:00 UTC", Some("20280229T020000Z"));
        check("Sun, 28 Feb 2027 14:00:00 UTC", Some("20270301T020000Z"));
    }

    #[test]
    fn invalid_date_gives_no_snapshot() {
        check("Fri, 30 Okt 2026 08:08:01 UTC", None);
        check("Fri, 31 Nov 2026 08:08:01 UTC", None);
        check("Fri, 30 Oct 2026 08:08 UTC", None);
        check("Fri, 30 Oct 2026 08:08:01 CET", None);
        check("yesterday", None);
        assert_eq!(snapshot_time(""), None);
    }
}
