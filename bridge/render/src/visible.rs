//! Bytes as text that is safe to show: bytes that are not UTF-8, and control characters, become
//! visible escapes.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::Utf8Chunk;

/// The width of a byte that is not part of a character: `\xNN`.
const INVALID: usize = 4;

/// Bytes as text. Valid UTF-8 is taken over as it is; other bytes become `\xNN`.
pub(super) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.into()
}

/// Control characters become `\xNN`, marks that turn the direction of text or cannot be seen
/// `\uNNNN`, so that output cannot move a cursor, ring, or read as something else than it is. New
/// lines (also those of Windows) and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(may_be_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    while let Some((plain, character, behind)) = split(rest) {
        shown.push_str(plain);
        match character {
            '\r' if behind.starts_with('\n') => shown.push('\r'),
            '\r' => shown.push_str("\\r"),
            _ if is_hidden(character) => escape(&mut shown, character.into()),
            _ => shown.push(character),
        }
        rest = behind;
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Writes one escape. Coloured output has two of them a line: `write!` would be half of what a
/// megabyte costs.
fn escape(shown: &mut String, number: u32) {
    let (mark, digits) = match number {
        0..=0xff => ('x', 2),
        0x100..=0xffff => ('u', 4),
        _ => ('U', 8),
    };
    shown.push('\\');
    shown.push(mark);
    let digits = (0..digits).rev().map(|place| number >> (4 * place) & 0xf);
    shown.extend(digits.filter_map(|digit| char::from_digit(digit, 16)));
}

/// Bytes that `bytes` take as `decode` and `visible` show them: never fewer than there are.
pub(super) fn width(bytes: &[u8]) -> usize {
    // Nearly always it is text, and to see whether costs less than the chunks.
    if let Ok(text) = std::str::from_utf8(bytes) {
        return width_of_text(text);
    }
    let width = |chunk: Utf8Chunk| width_of_text(chunk.valid()) + INVALID * chunk.invalid().len();
    bytes.utf8_chunks().map(width).sum()
}

fn width_of_text(text: &str) -> usize {
    let mut width = text.len();
    let mut rest = text;
    while let Some((_, character, behind)) = split(rest) {
        width += width_of(character, behind.starts_with('\n')) - character.len_utf8();
        rest = behind;
    }
    width
}

/// How much of the beginning of `bytes` takes at most `room` bytes as it is shown.
pub(super) fn head_within(bytes: &[u8], room: usize) -> usize {
    let bytes = &bytes[..bytes.len().min(room)];
    let mut taken = 0;
    let fits = |(_, width): &(usize, usize)| {
        taken += width;
        taken <= room
    };
    widths(bytes)
        .take_while(fits)
        .map(|(length, _)| length)
        .sum()
}

/// How much of the end of `bytes` takes at most `room` bytes as it is shown.
pub(super) fn tail_within(bytes: &[u8], room: usize) -> usize {
    let bytes = &bytes[bytes.len() - bytes.len().min(room)..];
    let mut over = width(bytes).saturating_sub(room);
    let is_over = |(_, width): &(usize, usize)| {
        let was_over = over > 0;
        over = over.saturating_sub(*width);
        was_over
    };
    let left_out: usize = widths(bytes)
        .take_while(is_over)
        .map(|(length, _)| length)
        .sum();
    bytes.len() - left_out
}

/// The length and the shown width of each character, and of each byte that is not part of one.
fn widths(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let mut characters = chunk.valid().chars().peekable();
        let shown = std::iter::from_fn(move || {
            let character = characters.next()?;
            let ends_line = characters.peek() == Some(&'\n');
            Some((character.len_utf8(), width_of(character, ends_line)))
        });
        shown.chain(chunk.invalid().iter().map(|_| (1, INVALID)))
    })
}

/// The width of a character as it is shown; `ends_line` says that a new line follows.
fn width_of(character: char, ends_line: bool) -> usize {
    match (character, character.len_utf8()) {
        ('\r', length) => length + usize::from(!ends_line),
        (_, length) if !is_hidden(character) => length,
        ('\0'..='\u{ff}', _) => 4,
        (_, 4) => 10,
        _ => 6,
    }
}

/// Text up to the first character that may have to be shown otherwise, that character, and what is
/// behind it. Megabytes come through here, and nearly all of them are plain.
fn split(text: &str) -> Option<(&str, char, &str)> {
    // The byte begins a character, so this is a place to cut at.
    let (plain, rest) = text.split_at_checked(text.bytes().position(may_be_hidden)?)?;
    let mut characters = rest.chars();
    Some((plain, characters.next()?, characters.as_str()))
}

/// Whether the byte may be the first one of a carriage return or of a hidden character.
fn may_be_hidden(byte: u8) -> bool {
    MAY_BE_HIDDEN[usize::from(byte)]
}

/// A table, because every byte of every answer is looked up several times.
static MAY_BE_HIDDEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte: u8 = 0xff;
    loop {
        table[byte as usize] =
            matches!(byte, 0..=0x08 | 0x0b..=0x1f | 0x7f | 0xc2 | 0xd8 | 0xe2 | 0xf3);
        if byte == 0 {
            break table;
        }
        byte -= 1;
    }
};

/// Controls other than tab, new line and carriage return; marks of direction; separators that some
/// take for line ends; and the invisible copies of ASCII, in which models read what people do not
/// see.
fn is_hidden(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn controls_are_shown_and_text_is_left_alone() {
        assert_eq!(visible("a\n\n b\tc\r\né🦀"), "a\n\n b\tc\r\né🦀");
        assert_eq!(visible("\u{1b}[31mred\u{1b}[0m"), "\\x1b[31mred\\x1b[0m");
        assert_eq!(visible("10%\r20%\r\n"), "10%\\r20%\r\n");
        assert_eq!(
            visible("a\u{202e}b\u{2066}\u{200f}"),
            "a\\u202eb\\u2066\\u200f"
        );
        assert_eq!(visible("\u{e0041}\u{2028}"), "\\U000e0041\\u2028");
        assert_eq!(visible("👩\u{200d}🔬 שלום é"), "👩\u{200d}🔬 שלום é");
        assert_eq!(visible("\u{0}\u{7}\u{7f}\u{9b}"), "\\x00\\x07\\x7f\\x9b");
    }

    #[test]
    fn hidden_characters_begin_with_a_byte_of_the_table() {
        for character in (0..=0x0010_ffff).filter_map(char::from_u32) {
            if is_hidden(character) || character == '\r' {
                let text = character.to_string();
                assert!(may_be_hidden(text.as_bytes()[0]), "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn widths_are_those_of_what_is_shown(
            bytes in proptest::collection::vec(prop_oneof![
                Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0), Just(0xc2), Just(0x85), Just(0xf3), Just(0xa0), Just(0x81), any::<u8>()
            ], 0..60),
            room in 0_usize..80,
        ) {
            let shown = |bytes: &[u8]| visible(&decode(bytes)).len();
            prop_assert_eq!(width(&bytes), shown(&bytes));
            prop_assert!(width(&bytes) >= bytes.len());
            let head = head_within(&bytes, room);
            // A cut in the middle of a Windows line end makes its half visible.
            prop_assert!(width(&bytes[..head]) <= room + 1);
            let tail = tail_within(&bytes, room);
            prop_assert!(tail <= room);
            if width(&bytes) <= room {
                prop_assert_eq!((head, tail), (bytes.len(), bytes.len()));
            }
        }
    }

    #[test]
    fn bytes_that_are_not_text_become_escapes() {
        assert_eq!(
            decode(b"ok \xff\xfe caf\xc3\xa9 \xc3"),
            "ok \\xff\\xfe café \\xc3"
        );
        assert_eq!(decode(b"\xed\xa0\x80"), "\\xed\\xa0\\x80");
    }

    proptest! {
        #[test]
        fn valid_text_is_decoded_unchanged(text in ".*") {
            prop_assert_eq!(decode(text.as_bytes()), text.as_str());
        }

        #[test]
        fn nothing_shown_moves_a_cursor(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let shown = visible(&decode(&bytes)).replace("\r\n", "\n");
            prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
