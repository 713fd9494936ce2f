//! Lines out of arbitrary pieces, with a limit on their size.
//!
//! A line that lies within one piece is handed out without copying. After an error
//! nothing more is decoded: the guest that caused it is killed.

use bridge_common::lines::{Discard, Line, LineDecoder as Lines};
use bytes::Bytes;

use super::Error;

/// Bytes allowed in one line of the guest.
pub const FRAME_LIMIT: usize = 16 << 20;

/// Bytes allowed in one line to the guest: a result of 16 MiB passes whatever its escapes and its
/// envelope add.
pub const TO_GUEST_LIMIT: usize = (32 << 20) + (64 << 10);

/// Cuts what a guest writes into lines.
#[derive(Debug)]
pub struct LineDecoder {
    limit: usize,
    lines: Lines<Discard>,
    failed: bool,
}

impl LineDecoder {
    /// A decoder for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            lines: Lines::new(limit),
            failed: false,
        }
    }

    /// Takes the next piece. Lines of the previous piece that were not taken stay available.
    pub fn push(&mut self, piece: Bytes) {
        if !self.failed {
            self.lines.push(piece);
        }
    }

    /// The next whole line, without its newline; `None` when another piece is needed.
    pub fn line(&mut self) -> Result<Option<Bytes>, Error> {
        if !self.failed {
            match self.lines.next_line() {
                Some(Line::Whole(line)) => return Ok(Some(line)),
                None if !self.lines.is_over_limit() => return Ok(None),
                _ => self.failed = true,
            }
        }
        Err(Error::FrameTooLarge { limit: self.limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(decoder: &mut LineDecoder, pieces: &[&[u8]]) -> Result<Vec<Bytes>, Error> {
        let mut found = Vec::new();
        for piece in pieces {
            decoder.push(Bytes::copy_from_slice(piece));
            while let Some(line) = decoder.line()? {
                found.push(line);
            }
        }
        Ok(found)
    }

    #[test]
    fn a_line_may_come_in_many_pieces_and_a_piece_may_hold_many_lines() {
        let mut decoder = LineDecoder::new(100);
        let found = lines(&mut decoder, &[b"a\nbc", b"", b"d\n\ne", b"\nrest"]).unwrap();
        assert_eq!(found, ["a", "bcd", "", "e"]);
    }

    #[test]
    fn pieces_pushed_before_the_lines_were_taken_are_joined() {
        let mut decoder = LineDecoder::new(100);
        decoder.push(Bytes::from_static(b"a\nb"));
        decoder.push(Bytes::from_static(b"c\n"));
        assert_eq!(decoder.line().unwrap().unwrap(), "a");
        assert_eq!(decoder.line().unwrap().unwrap(), "bc");
        assert_eq!(decoder.line().unwrap(), None);
    }

    #[test]
    fn the_limit_itself_is_allowed_and_one_more_byte_is_not() {
        let mut decoder = LineDecoder::new(4);
        assert_eq!(lines(&mut decoder, &[b"ab", b"cd\n"]).unwrap(), ["abcd"]);
        assert!(lines(&mut decoder, &[b"abcd", b"e"]).is_err());
        assert!(lines(&mut decoder, &[b"\n"]).is_err(), "stays failed");
        assert!(lines(&mut LineDecoder::new(4), &[b"abcde\n"]).is_err());
    }

    #[test]
    fn an_endless_line_is_not_buffered_beyond_the_limit() {
        let mut decoder = LineDecoder::new(1000);
        let piece = [b'x'; 100];
        let mut failed = 0;
        for _ in 0..1_000 {
            decoder.push(Bytes::copy_from_slice(&piece));
            failed += usize::from(decoder.line().is_err());
            assert!(decoder.lines.pending() <= 1000);
        }
        assert_eq!(failed, 990);
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_lines(
            lines_in in prop::collection::vec("[^\n]{0,40}", 0..20),
            cuts in prop::collection::vec(1usize..30, 1..60),
        ) {
            let whole: Vec<u8> = lines_in.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
            let mut rest = whole.as_slice();
            let mut decoder = LineDecoder::new(1 << 10);
            let mut found = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, others) = rest.split_at((*cut).min(rest.len()));
                rest = others;
                decoder.push(Bytes::copy_from_slice(piece));
                while let Some(line) = decoder.line().unwrap() {
                    found.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            prop_assert_eq!(found, lines_in);
        }

        #[test]
        fn random_bytes_never_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)) {
            let mut decoder = LineDecoder::new(300);
            for piece in pieces {
                decoder.push(piece.into());
                while let Ok(Some(line)) = decoder.line() {
                    prop_assert!(line.len() <= 300);
                    let _ = super::super::FromGuest::parse(&line);
                }
            }
        }
    }
}
