//! When the snapshot archive holds what a release lists.

/// Hours between a release and the moment that is locked. Mirrors and the archive take a few hours to get it, and files
/// that are replaced stay for more than a day.
const HOURS: u64 = 12;

/// The moment to lock for a `Release` file, written as the archive writes it: `20261030T200801Z`.
pub(super) fn after_release(release: &str) -> Option<String> {
    let date = release
        .lines()
        .find_map(|line| line.strip_prefix("Date: "))?;
    // Fri, 30 Oct 2026 08:08:01 UTC
    let mut words = date.split_ascii_whitespace().skip(1);
    let day = words.next()?.parse::<u64>().ok()?;
    let month = month(words.next()?)?;
    let year = words.next()?.parse::<u64>().ok()?;
    let mut time = words
        .next()?
        .splitn(3, ':')
        .map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    if words.next() != Some("UTC")
        || day == 0
        || day > days(year, month)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let (mut year, mut month, mut day, mut hour) = (year, month, day, hour + HOURS);
    if hour > 23 {
        hour -= 24;
        day += 1;
    }
    if day > days(year, month) {
        day = 1;
        month += 1;
    }
    if month > 12 {
        month = 1;
        year += 1;
    }
    Some(format!(
        "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"
    ))
}

fn month(name: &str) -> Option<u64> {
    let names = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    (1..)
        .zip(names)
        .find(|(_, known)| *known == name)
        .map(|(number, _)| number)
}

fn days(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(date: &str, expected: Option<&str>) {
        let release =
            format!("Origin: Debian\nDate: {date}\nValid-Until: Fri, 06 Nov 2026 08:08:01 UTC\n");
        assert_eq!(after_release(&release).as_deref(), expected, "{date}");
    }

    #[test]
    fn adds_half_a_day() {
        check("Fri, 30 Oct 2026 08:08:01 UTC", Some("20261030T200801Z"));
        check("Sat, 31 Oct 2026 20:08:01 UTC", Some("20261101T080801Z"));
        check("Thu, 31 Dec 2026 14:00:00 UTC", Some("20270101T020000Z"));
        check("Mon, 28 Feb 2028 14:00:00 UTC", Some("20280229T020000Z"));
        check("Sun, 28 Feb 2027 14:00:00 UTC", Some("20270301T020000Z"));
    }

    #[test]
    fn what_is_no_date_is_none() {
        check("Fri, 30 Okt 2026 08:08:01 UTC", None);
        check("Fri, 31 Nov 2026 08:08:01 UTC", None);
        check("Fri, 30 Oct 2026 08:08 UTC", None);
        check("Fri, 30 Oct 2026 08:08:01 CET", None);
        check("yesterday", None);
        assert_eq!(after_release(""), None);
    }
}
