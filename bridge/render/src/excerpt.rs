//! What of a text fits into an answer: its head and its tail, and in between how much is left out
//! and how to get it.
//!
//! Cuts are at line ends where lines are short enough, never inside a character. Counts are exact.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::visible::{decode, head_within, tail_within, width};
use bridge_common::human::{count, size};
use bridge_session::Captured;

/// Lines that the hint offers to read next.
const NEXT_LINES: u64 = 60;
/// Characters, where lines are too long to be read one by one.
const NEXT_CHARACTERS: usize = 4000;

/// The part of a stream that is shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Excerpt<'a> {
    /// The text, with the line that says what is missing.
    pub(super) text: Cow<'a, str>,
    /// Bytes of the stream that are not in it.
    pub(super) left_out: u64,
}

/// Where code finds the whole of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole {
    /// `runtime.last_output`, or what of it.
    pub(super) name: &'static str,
    /// Number of the cell that wrote it, by which later calls find it.
    pub(super) cell: u64,
    /// How the stream relates to it.
    pub(super) extent: Extent,
}

/// How much of what a run prints the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it: lines have the numbers that they have there.
    All,
    /// The last part, of a run whose first parts have been read before.
    Rest,
    /// A part of it, and the run goes on: the whole can be read when it has ended.
    SoFar,
}

/// As much of a stream as fits into `room` bytes as it is shown: controls and bytes that are not
/// text take several each. `whole` is `None` where it is gone with its session.
pub(super) fn stream(captured: &Captured, room: usize, whole: Option<Whole>) -> Excerpt<'_> {
    let (bytes, dropped) = complete(captured);
    if dropped == 0 && bytes.len() <= room && width(bytes) <= room {
        return Excerpt {
            text: decode(bytes),
            left_out: 0,
        };
    }
    let Captured {
        dropped_lines,
        tail,
        lost,
        ..
    } = captured;
    let (head, end) = if dropped == 0 {
        let head = head_of(bytes, room - room / 3);
        (head, tail_of(&bytes[head.len()..], room / 3))
    } else {
        let end = tail_of(tail, room / 3);
        (head_of(bytes, room.saturating_sub(width(end))), end)
    };
    let total = captured.total();
    let left_out = total - head.len() as u64 - end.len() as u64;
    let mut text = decode(head).into_owned();
    if left_out > 0 {
        let lines = newlines(bytes).saturating_add(*dropped_lines);
        let lines = lines.saturating_sub(newlines(head) + newlines(end));
        let next = whole.map(|whole| hint(whole, &text, lines, total, *lost));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let lines = match lines {
            0 => format!("{} bytes", count(left_out)),
            1 => format!("1 line ({} bytes)", count(left_out)),
            lines => format!("{} lines ({} bytes)", count(lines), count(left_out)),
        };
        let _ = writeln!(text, "... {lines} left out{} ...", next.unwrap_or_default());
    }
    text.push_str(&decode(end));
    Excerpt {
        text: text.into(),
        left_out,
    }
}

/// As much of another text as fits, such as a traceback; what is left out is gone.
pub(super) fn text(text: Cow<'_, str>, room: usize) -> Cow<'_, str> {
    if text.len() <= room && width(text.as_bytes()) <= room {
        return text;
    }
    let captured = Captured {
        bytes: text.into_owned().into_bytes(),
        ..Captured::default()
    };
    let cut = stream(&captured, room, None).text;
    cut.into_owned().into()
}

/// `; runtime.last_output.lines(60, 120), .grep("ERROR"), .tail(50); in later calls
/// runtime.outputs[7]`
fn hint(whole: Whole, head: &str, lines: u64, total: u64, lost: u64) -> String {
    let Whole { name, cell, extent } = whole;
    let later = name.replace("last_output", &format!("outputs[{cell}]"));
    let first = if extent == Extent::SoFar {
        return format!("; once the run has ended: {name}.grep(\"ERROR\"), .tail(50)");
    } else if lost > 0 {
        let kept = size(total.saturating_sub(lost));
        return format!(
            "; the last {kept} are kept: {name}.grep(\"ERROR\"), .tail(50); in later calls {later}"
        );
    } else if extent == Extent::Rest {
        return format!(
            "; all that the run has printed: {name}.grep(\"ERROR\"), .tail(50); in later calls {later}"
        );
    } else if head.is_empty() || head.ends_with('\n') {
        let from = newlines(head.as_bytes());
        format!(".lines({from}, {})", from + lines.clamp(1, NEXT_LINES))
    } else {
        let from = head.chars().count();
        format!(".text[{from}:{}]", from + NEXT_CHARACTERS)
    };
    format!("; {name}{first}, .grep(\"ERROR\"), .tail(50); in later calls {later}")
}

/// The bytes that are kept and the number of those that are not: a character that the limit has cut
/// counts as left out whole.
fn complete(captured: &Captured) -> (&[u8], u64) {
    let bytes = captured.bytes.as_slice();
    if captured.dropped > 0
        && let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        let (kept, cut) = bytes.split_at(error.valid_up_to());
        return (kept, captured.dropped + cut.len() as u64);
    }
    (bytes, captured.dropped)
}

/// The beginning, up to a line end where one is near.
fn head_of(bytes: &[u8], room: usize) -> &[u8] {
    let room = head_within(bytes, room);
    if bytes.len() <= room {
        return bytes;
    }
    let limit = &bytes[..room];
    match memchr::memrchr(b'\n', limit) {
        Some(end) if end + 1 > room / 2 => &bytes[..=end],
        _ => {
            let end = (room.saturating_sub(3)..=room).rfind(|end| is_boundary(bytes, *end));
            &bytes[..end.unwrap_or(room)]
        }
    }
}

/// The end, from a line's beginning where one is near.
fn tail_of(bytes: &[u8], room: usize) -> &[u8] {
    let room = tail_within(bytes, room);
    if bytes.len() <= room {
        // What comes before was cut off somewhere; a character may have been cut.
        let start = (0..bytes.len().min(4)).find(|start| is_boundary(bytes, *start));
        return &bytes[start.unwrap_or(0)..];
    }
    let start = bytes.len() - room;
    // A line that begins right there counts too.
    match memchr::memchr(b'\n', &bytes[start - 1..]) {
        Some(end) if end < room / 2 && start + end < bytes.len() => &bytes[start + end..],
        _ => {
            let start = (start..=bytes.len().min(start + 4)).find(|at| is_boundary(bytes, *at));
            &bytes[start.unwrap_or(bytes.len() - room)..]
        }
    }
}

/// Whether a character can begin here.
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: Whole = Whole {
        name: "runtime.last_output",
        cell: 7,
        extent: Extent::All,
    };

    fn cut(captured: &Captured, room: usize, whole: Option<Whole>) -> Excerpt<'static> {
        let Excerpt { text, left_out } = stream(captured, room, whole);
        Excerpt {
            text: text.into_owned().into(),
            left_out,
        }
    }

    fn printed(text: &str) -> Captured {
        Captured {
            bytes: text.as_bytes().to_vec(),
            ..Captured::default()
        }
    }

    fn numbered(lines: std::ops::Range<u32>) -> String {
        lines.fold(String::new(), |text, line| text + &format!("line {line}\n"))
    }

    #[test]
    fn text_that_fits_is_left_alone() {
        let excerpt = cut(&printed("a\n\n b"), 6, Some(WHOLE));
        assert_eq!((&*excerpt.text, excerpt.left_out), ("a\n\n b", 0));
    }

    #[test]
    fn lines_are_cut_whole_and_counted() {
        let text = numbered(0..1000);
        let excerpt = cut(&printed(&text), 100, Some(WHOLE));
        insta::assert_snapshot!(excerpt.text, @r#"
        line 0
        line 1
        line 2
        line 3
        line 4
        line 5
        line 6
        line 7
        line 8
        ... 988 lines (8,800 bytes) left out; runtime.last_output.lines(9, 69), .grep("ERROR"), .tail(50); in later calls runtime.outputs[7] ...
        line 997
        line 998
        line 999
        "#);
        assert_eq!(excerpt.left_out, 8_800);
        let shown: String = text.lines().take(9).chain(text.lines().skip(997)).collect();
        assert_eq!(shown.len() + 12 + 8_800, text.len());
    }

    #[test]
    fn hint_says_where_output_left_out_of_a_running_run_can_be_found() {
        let text = |extent| {
            let whole = Whole { extent, ..WHOLE };
            cut(&printed(&numbered(0..1000)), 100, Some(whole)).text
        };
        let told = "left out; once the run has ended: runtime.last_output.grep(\"ERROR\"), .tail(50) ...\n";
        assert!(text(Extent::SoFar).contains(told));
        let told = "left out; all that the run has printed: runtime.last_output.grep(\"ERROR\"), .tail(50); in later calls runtime.outputs[7] ...\n";
        assert!(text(Extent::Rest).contains(told));
    }

    #[test]
    fn controls_count_as_wide_as_they_are_shown() {
        for bytes in [
            vec![0; 100_000],
            vec![0xff; 100_000],
            b"\x1b[1m\r".repeat(20_000),
        ] {
            let captured = Captured {
                bytes,
                ..Captured::default()
            };
            let excerpt = cut(&captured, 1_000, Some(WHOLE));
            let shown = super::super::visible(&excerpt.text);
            assert!(shown.len() < 1_300, "{}", shown.len());
            assert!(shown.len() > 900, "{}", shown.len());
        }
    }

    #[test]
    fn one_long_line_is_cut_inside() {
        let excerpt = cut(&printed(&"é".repeat(1000)), 61, Some(WHOLE));
        insta::assert_snapshot!(excerpt.text, @r#"
        éééééééééééééééééééé
        ... 1,940 bytes left out; runtime.last_output.text[20:4020], .grep("ERROR"), .tail(50); in later calls runtime.outputs[7] ...
        éééééééééé
        "#);
    }

    #[test]
    fn the_end_of_what_was_dropped_is_shown() {
        let captured = Captured {
            bytes: numbered(0..10).into_bytes(),
            dropped: 9_000_000,
            dropped_lines: 1_000_000,
            tail: b"9998\nline 999999\n".to_vec(),
            lost: 0,
        };
        let excerpt = cut(&captured, 60, Some(WHOLE));
        insta::assert_snapshot!(excerpt.text, @r#"
        line 0
        line 1
        line 2
        line 3
        line 4
        line 5
        ... 1,000,002 lines (9,000,011 bytes) left out; runtime.last_output.lines(6, 66), .grep("ERROR"), .tail(50); in later calls runtime.outputs[7] ...
        9998
        line 999999
        "#);
        assert_eq!(excerpt.left_out, 9_000_000 + 70 - 42 - 17);
        let lost = Captured {
            lost: 1 << 20,
            ..captured
        };
        let text = cut(&lost, 60, Some(WHOLE)).text;
        assert!(
            text.contains("; the last 7.5 MiB are kept: runtime.last_output.grep(\"ERROR\"), .tail(50); in later calls"),
            "{text}"
        );
        let gone = cut(&lost, 60, None).text;
        assert!(gone.contains("(9,000,011 bytes) left out ...\n"), "{gone}");
    }

    #[test]
    fn a_tail_that_has_all_that_was_dropped_closes_the_gap() {
        let captured = Captured {
            bytes: b"abc".to_vec(),
            dropped: 3,
            tail: b"def".to_vec(),
            ..Captured::default()
        };
        let excerpt = cut(&captured, 100, Some(WHOLE));
        assert_eq!((&*excerpt.text, excerpt.left_out), ("abcdef", 0));
    }

    proptest! {
        #[test]
        fn any_text_is_whole_or_its_bytes_are_all_accounted_for(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(0xc3), Just(0xa9), any::<u8>()], 0..400),
            room in 0_usize..500,
        ) {
            let captured = Captured { bytes: bytes.clone(), ..Captured::default() };
            let excerpt = cut(&captured, room, None);
            if width(&bytes) <= room {
                prop_assert_eq!(excerpt.text, decode(&bytes));
            } else {
                let left_out = usize::try_from(excerpt.left_out).expect("small");
                prop_assert!((bytes.len().saturating_sub(room)..=bytes.len()).contains(&left_out));
                prop_assert!(excerpt.text.contains(&count(excerpt.left_out)));
            }
        }

        #[test]
        fn characters_are_never_cut(text in "[a-zé🦀\n]{0,300}", room in 8_usize..300) {
            let excerpt = cut(&printed(&text), room, None);
            prop_assert!(!excerpt.text.contains("\\x"), "{}", excerpt.text);
        }
    }
}
