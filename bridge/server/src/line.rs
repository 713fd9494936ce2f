//! Bounded lines from a client, and what can be learnt from a line that is not a valid message: its
//! id, so that the caller gets an answer instead of waiting for ever.

use std::io;

use bridge_common::lines::{EnvelopeScanner, LineDecoder};
use bytes::{Buf as _, Bytes, BytesMut};
use rmcp::model::RequestId;
use tokio::io::{AsyncRead, AsyncReadExt};

pub(super) use bridge_common::lines::Envelope;

/// The most bytes of one message.
pub(super) const MAX_LINE: usize = 32 << 20;
/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;

/// A line from the client, without its end and the spaces around it.
pub(super) type Line = bridge_common::lines::Line<Envelope>;

/// Reads lines. Dropping a pending [`Lines::next`] loses nothing.
pub(super) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    decoder: LineDecoder<EnvelopeScanner>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self::with_max(reader, MAX_LINE)
    }

    fn with_max(reader: R, max: usize) -> Self {
        Self {
            reader,
            buffer: BytesMut::new(),
            decoder: LineDecoder::new(max),
            ended: false,
        }
    }

    /// The next line that is not blank; `None` at the end. A last line without an end counts.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let line = match self.decoder.next_line() {
                None if self.ended => match self.decoder.finish() {
                    None => return Ok(None),
                    line => line,
                },
                line => line,
            };
            match line {
                Some(Line::Whole(line)) => {
                    let line = trimmed(line);
                    if !line.is_empty() {
                        return Ok(Some(Line::Whole(line)));
                    }
                }
                Some(line) => return Ok(Some(line)),
                None => {
                    self.buffer.reserve(READ_SIZE);
                    self.ended = self.reader.read_buf(&mut self.buffer).await? == 0;
                    self.decoder.push(self.buffer.split().freeze());
                }
            }
        }
    }
}

/// A line without a byte order mark and without the spaces and carriage returns at its end.
fn trimmed(mut line: Bytes) -> Bytes {
    if line.starts_with(b"\xef\xbb\xbf") {
        line.advance(3);
    }
    line.truncate(line.trim_ascii_end().len());
    line
}

/// The id in `envelope` in rmcp's type.
pub(super) fn request_id(envelope: &Envelope) -> Option<RequestId> {
    serde_json::from_value(envelope.id.clone()?).ok()
}

/// Describes the first lone surrogate: half of a pair, which Unicode text cannot hold.
pub(super) fn lone_surrogate(line: &[u8]) -> Option<String> {
    let unit = |at: usize| {
        let digits = line.get(at + 2..at + 6)?;
        let is_escape = line.get(at..at + 2)? == b"\\u" && digits.iter().all(u8::is_ascii_hexdigit);
        is_escape.then(|| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())?
    };
    let mut at = 0;
    while at < line.len() {
        if line[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit(at) {
            None => at += 2,
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(value @ 0xd800..=0xdfff) => {
                return Some(format!(
                    "a lone surrogate, \\u{value:04x}, at byte {}: it is half of a character; \
                     send both halves, or escape the backslash",
                    at + 1
                ));
            }
            Some(_) => at += 6,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn lines(input: &[u8], max: usize) -> Vec<Line> {
        let mut reader = Lines::with_max(input, max);
        let mut all = Vec::new();
        while let Some(line) = reader.next().await.expect("reading from memory") {
            all.push(line);
        }
        all
    }

    fn whole(text: &str) -> Line {
        Line::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[tokio::test]
    async fn blank_lines_carriage_returns_and_byte_order_marks_are_skipped() {
        let input = b"\n\r\n  \n\xef\xbb\xbf{\"a\":1}\r\n{}\nlast";
        assert_eq!(
            lines(input, 100).await,
            [whole("{\"a\":1}"), whole("{}"), whole("last")]
        );
    }

    #[tokio::test]
    async fn line_that_is_too_long_yields_its_id_and_the_next_line_is_read() {
        let long = format!(
            "{{\"method\":\"x\",\"params\":\"{}\",\"id\":7}}\n{{\"a\":1}}\n",
            "y".repeat(1 << 20)
        );
        let found = lines(long.as_bytes(), 1000).await;
        let envelope = Envelope {
            id: Some(7.into()),
            has_id: true,
            has_method: true,
            ..Envelope::default()
        };
        assert_eq!(request_id(&envelope), Some(RequestId::Number(7)));
        let first = long.split('\n').next().expect("a line");
        let too_long = Line::TooLong {
            bytes: first.len() as u64,
            summary: envelope,
        };
        assert_eq!(found, [too_long.clone(), whole("{\"a\":1}")]);
        let unended = lines(first.as_bytes(), 1000).await;
        assert_eq!(unended, [too_long]);
    }

    #[test]
    fn lone_surrogates_are_found_and_pairs_are_not() {
        assert!(lone_surrogate(br#""\ud83e\udd80 \\ud800 \u00e9""#).is_none());
        assert!(
            lone_surrogate(br#"{"code":"\ud800"}"#)
                .expect("found")
                .contains("\\ud800, at byte 10")
        );
        assert!(lone_surrogate(br#""\udc00""#).is_some());
        assert!(lone_surrogate(br#""\ud83e\u0041""#).is_some());
    }

    proptest! {
        #[test]
        fn scan_for_surrogates_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = lone_surrogate(&bytes);
        }
    }
}
