//! Lines out of arbitrary pieces, bounded whatever comes.
//!
//! [`LineDecoder`] cuts pieces into lines. A line over the limit is not kept: an [`Overflow`]
//! policy is fed its bytes and says what is remembered of it. A line that lies within one piece is
//! handed out without copying.

use bytes::{Buf, Bytes};

pub use crate::envelope::{Envelope, EnvelopeScanner};

/// What is remembered of a line over the limit. The policy sees every byte of the line, in order.
pub trait Overflow: Default {
    /// What is left of the line at its end.
    type Summary;

    /// Takes the next bytes of the line.
    fn feed(&mut self, bytes: &[u8]);

    /// The line has ended.
    fn finish(self) -> Self::Summary;
}

/// One line, without its line feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<S> {
    /// The line as it came.
    Whole(Bytes),
    /// The line was over the limit.
    TooLong {
        /// The length of the line.
        bytes: u64,
        /// What the policy remembered of it.
        summary: S,
    },
}

/// Cuts pieces into lines of at most `limit` bytes.
#[derive(Debug)]
pub struct LineDecoder<P> {
    limit: usize,
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    /// The rest of the last piece.
    piece: Bytes,
    /// Set while a line over the limit goes on: its length so far, and the policy.
    overflow: Option<(u64, P)>,
}

impl<P: Overflow> LineDecoder<P> {
    /// A decoder for lines of at most `limit` bytes, line feeds not counted.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            partial: Vec::new(),
            piece: Bytes::new(),
            overflow: None,
        }
    }

    /// Takes the next piece. Lines of the previous piece that were not taken stay available.
    pub fn push(&mut self, piece: Bytes) {
        if self.piece.is_empty() {
            self.piece = piece;
        } else {
            self.piece = [&self.piece[..], &piece[..]].concat().into();
        }
    }

    /// The next line that is complete; `None` when another piece is needed.
    pub fn next_line(&mut self) -> Option<Line<P::Summary>> {
        let Some(end) = memchr::memchr(b'\n', &self.piece) else {
            let rest = std::mem::take(&mut self.piece);
            self.extend(&rest);
            return None;
        };
        let line = self.piece.split_to(end);
        self.piece.advance(1);
        if self.overflow.is_none() && self.partial.is_empty() && line.len() <= self.limit {
            return Some(Line::Whole(line));
        }
        self.extend(&line);
        Some(self.end_line())
    }

    /// The last line of an input that ended without a line feed.
    pub fn finish(&mut self) -> Option<Line<P::Summary>> {
        let rest = std::mem::take(&mut self.piece);
        self.extend(&rest);
        (self.is_over_limit() || !self.partial.is_empty()).then(|| self.end_line())
    }

    /// Bytes held of the line that is not complete yet.
    pub fn pending(&self) -> usize {
        self.partial.len() + self.piece.len()
    }

    /// Whether the line that is not complete yet is over the limit already.
    pub fn is_over_limit(&self) -> bool {
        self.overflow.is_some()
    }

    fn extend(&mut self, bytes: &[u8]) {
        if let Some((length, policy)) = &mut self.overflow {
            *length += bytes.len() as u64;
            policy.feed(bytes);
        } else if self.partial.len() + bytes.len() <= self.limit {
            self.partial.extend_from_slice(bytes);
        } else {
            let partial = std::mem::take(&mut self.partial);
            let mut policy = P::default();
            policy.feed(&partial);
            policy.feed(bytes);
            self.overflow = Some(((partial.len() + bytes.len()) as u64, policy));
        }
    }

    fn end_line(&mut self) -> Line<P::Summary> {
        match self.overflow.take() {
            Some((bytes, policy)) => Line::TooLong {
                bytes,
                summary: policy.finish(),
            },
            None => Line::Whole(std::mem::take(&mut self.partial).into()),
        }
    }
}

/// Remembers nothing of a line over the limit.
#[derive(Debug, Default)]
pub struct Discard;

impl Overflow for Discard {
    type Summary = ();

    fn feed(&mut self, _: &[u8]) {}

    fn finish(self) -> Self::Summary {}
}

/// Remembers the first [`Head::BYTES`] of a line over the limit.
#[derive(Debug, Default)]
pub struct Head(Vec<u8>);

impl Head {
    /// Bytes that are remembered.
    pub const BYTES: usize = 512;
}

impl Overflow for Head {
    type Summary = Vec<u8>;

    fn feed(&mut self, bytes: &[u8]) {
        let room = Self::BYTES - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn finish(self) -> Self::Summary {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(limit: usize, pieces: &[&[u8]]) -> Vec<Line<Vec<u8>>> {
        let mut decoder = LineDecoder::<Head>::new(limit);
        let mut lines = Vec::new();
        for piece in pieces {
            decoder.push(Bytes::copy_from_slice(piece));
            while let Some(line) = decoder.next_line() {
                lines.push(line);
            }
            assert!(decoder.pending() <= limit);
        }
        lines.extend(decoder.finish());
        lines
    }

    fn whole(text: &'static str) -> Line<Vec<u8>> {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn lines_are_cut_wherever_the_pieces_end() {
        assert_eq!(
            lines(10, &[b"a\nb", b"c\n", b"", b"\n", b"d"]),
            [whole("a"), whole("bc"), whole(""), whole("d")]
        );
    }

    #[test]
    fn pieces_pushed_before_the_lines_were_taken_are_joined() {
        let mut decoder = LineDecoder::<Discard>::new(100);
        decoder.push(Bytes::from_static(b"a\nb"));
        decoder.push(Bytes::from_static(b"c\n"));
        assert_eq!(decoder.next_line(), Some(Line::Whole("a".into())));
        assert_eq!(decoder.next_line(), Some(Line::Whole("bc".into())));
        assert_eq!(decoder.next_line(), None);
    }

    #[test]
    fn line_over_the_limit_is_summed_up_and_the_next_one_is_whole() {
        let long = [b"head".as_slice(), &[b'x'; 5000], b"tail"].concat();
        let mut decoded = lines(100, &[&long[..50], &long[50..200], &long[200..], b"\nok\n"]);
        assert_eq!(decoded.pop(), Some(whole("ok")));
        let bytes = long.len() as u64;
        let summary = long[..Head::BYTES].to_vec();
        assert_eq!(decoded.pop(), Some(Line::TooLong { bytes, summary }));
    }

    #[test]
    fn limit_itself_is_allowed_and_one_more_byte_is_not() {
        assert_eq!(lines(4, &[b"ab", b"cd\n"]), [whole("abcd")]);
        for pieces in [&[b"abcde\n".as_slice()][..], &[b"abcd", b"e\n"]] {
            let [Line::TooLong { bytes: 5, .. }] = lines(4, pieces)[..] else {
                panic!("{pieces:?}")
            };
        }
    }

    proptest! {
        #[test]
        fn cutting_into_pieces_does_not_matter(
            text in "[ab\n]{0,60}",
            cuts in prop::collection::vec(0usize..60, 0..6),
            limit in 1usize..8,
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(lines(limit, &pieces), lines(limit, &[bytes]));
        }

        #[test]
        fn lines_and_limits_are_those_of_the_text(
            text in "[ab\n]{0,60}",
            limit in 1usize..8,
        ) {
            let expected: Vec<usize> = text.lines().map(str::len).collect();
            let found: Vec<usize> = lines(limit, &[text.as_bytes()])
                .into_iter()
                .map(|line| match line {
                    Line::Whole(bytes) => {
                        assert!(bytes.len() <= limit);
                        bytes.len()
                    }
                    Line::TooLong { bytes, .. } => {
                        let bytes = usize::try_from(bytes).expect("a short text");
                        assert!(bytes > limit);
                        bytes
                    }
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
