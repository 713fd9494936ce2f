//! Cuts what a server writes into lines, of bounded length whatever comes.
//!
//! A line over the limit is not kept but counted, with its two ends, so that the answer it was can still be failed by
//! its id while the connection lives on.

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Its bytes.
    Whole(Vec<u8>),
    /// It was too long.
    TooLong {
        /// Its first bytes.
        head: Vec<u8>,
        /// Its last bytes.
        tail: Vec<u8>,
        /// How many it had.
        bytes: u64,
    },
}

/// Bytes kept of each end of a line that is too long.
const END: usize = 512;

/// The decoder.
#[derive(Debug)]
pub(super) struct Lines {
    limit: usize,
    buffer: Vec<u8>,
    skipping: Option<Skipped>,
}

#[derive(Debug, Default)]
struct Skipped {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
}

impl Lines {
    /// Lines of up to `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            skipping: None,
        }
    }

    /// Takes `bytes` in and gives out the lines that they complete.
    pub(super) fn push(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Line)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.extend(&bytes[..end]);
            bytes = &bytes[end + 1..];
            each(self.finish());
        }
        self.extend(bytes);
    }

    /// What is left when the server has closed its output in the middle of a line.
    pub(super) fn rest(&mut self) -> Option<Line> {
        (self.skipping.is_some() || !self.buffer.is_empty()).then(|| self.finish())
    }

    /// Bytes of the line that is not complete yet.
    pub(super) fn pending(&self) -> usize {
        self.buffer.len()
    }

    fn extend(&mut self, bytes: &[u8]) {
        match &mut self.skipping {
            Some(skipped) => skipped.extend(bytes),
            None if self.buffer.len() + bytes.len() <= self.limit => {
                self.buffer.extend_from_slice(bytes);
            }
            None => {
                let mut skipped = Skipped::default();
                skipped.extend(&std::mem::take(&mut self.buffer));
                skipped.extend(bytes);
                self.skipping = Some(skipped);
            }
        }
    }

    fn finish(&mut self) -> Line {
        match self.skipping.take() {
            Some(Skipped { head, tail, bytes }) => Line::TooLong { head, tail, bytes },
            None => Line::Whole(std::mem::take(&mut self.buffer)),
        }
    }
}

impl Skipped {
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.head
            .extend_from_slice(&bytes[..bytes.len().min(END - self.head.len())]);
        let bytes = &bytes[bytes.len().saturating_sub(END)..];
        self.tail.extend_from_slice(bytes);
        let over = self.tail.len().saturating_sub(END);
        self.tail.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(limit: usize, chunks: &[&[u8]]) -> Vec<Line> {
        let mut decoder = Lines::new(limit);
        let mut lines = Vec::new();
        for chunk in chunks {
            decoder.push(chunk, &mut |line| lines.push(line));
        }
        lines.extend(decoder.rest());
        lines
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_cut_wherever_the_chunks_end() {
        assert_eq!(
            lines(10, &[b"a\nb", b"c\n", b"\n", b"d"]),
            [whole("a"), whole("bc"), whole(""), whole("d")]
        );
    }

    #[test]
    fn a_long_line_is_counted_and_the_next_one_is_whole() {
        let long = [b"head".as_slice(), &[b'x'; 5000], b"tail"].concat();
        let mut decoded = lines(100, &[&long[..50], &long[50..200], &long[200..], b"\nok\n"]);
        assert_eq!(decoded.pop(), Some(whole("ok")));
        let Some(Line::TooLong { head, tail, bytes }) = decoded.pop() else {
            panic!()
        };
        assert!(head.starts_with(b"head") && tail.ends_with(b"tail"));
        assert_eq!(
            (head.len(), tail.len(), bytes),
            (END, END, long.len() as u64)
        );
    }

    proptest! {
        #[test]
        fn chunking_does_not_matter(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..6), limit in 1usize..8) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(lines(limit, &chunks), lines(limit, &[bytes]));
        }
    }
}
