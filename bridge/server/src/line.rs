//! Lines of a client, bounded; and what can be learnt of a line that is no valid message: its id, so that the caller can be
//! answered instead of waiting for ever.

use std::io;

use bytes::{Buf, BytesMut};
use rmcp::model::RequestId;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of one message.
pub(super) const MAX_LINE: usize = 32 << 20;
/// Buffers that grew for one message shrink again after it.
const USUAL: usize = 64 << 10;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// As sent.
    Whole(BytesMut),
    /// It was longer than allowed and is gone; this is what it was for.
    TooLong(Envelope),
}

/// Reads lines. Dropping a pending [`Lines::next`] loses nothing.
pub(super) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    searched: usize,
    skipping: Option<Scanner>,
    ended: bool,
    max: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self::with_max(reader, MAX_LINE)
    }

    fn with_max(reader: R, max: usize) -> Self {
        Self {
            reader,
            buffer: BytesMut::new(),
            searched: 0,
            skipping: None,
            ended: false,
            max,
        }
    }

    /// The next line that is not blank; `None` at the end. A last line without an end counts.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(self
                    .skipping
                    .take()
                    .map(|scanner| Line::TooLong(scanner.finish())));
            }
            self.buffer.reserve(USUAL);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                self.ended = true;
                if !self.buffer.is_empty() {
                    self.buffer.extend_from_slice(b"\n");
                }
            }
        }
    }

    /// A line that is complete in the buffer.
    fn take(&mut self) -> Option<Line> {
        loop {
            let found = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            let Some(end) = found.map(|offset| self.searched + offset) else {
                self.searched = self.buffer.len();
                if self.skipping.is_some() || self.buffer.len() > self.max {
                    self.skipping.get_or_insert_default().feed(&self.buffer);
                    self.buffer = BytesMut::new();
                    self.searched = 0;
                }
                return None;
            };
            let mut line = self.buffer.split_to(end);
            self.buffer.advance(1);
            self.searched = 0;
            if let Some(mut scanner) = self.skipping.take() {
                scanner.feed(&line);
                return Some(Line::TooLong(scanner.finish()));
            }
            if line.starts_with(b"\xef\xbb\xbf") {
                line.advance(3);
            }
            let used = line.trim_ascii_end().len();
            line.truncate(used);
            if line.len() > self.max {
                return Some(Line::TooLong(Envelope::of(&line)));
            }
            if !line.is_empty() {
                return Some(Line::Whole(line));
            }
        }
    }
}

/// What the outermost object of a line says, as far as it could be made out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that are independent of each other"
)]
pub(super) struct Envelope {
    pub(super) id: Option<RequestId>,
    /// There is an id, be it one that no request may have.
    pub(super) has_id: bool,
    pub(super) has_method: bool,
    pub(super) has_answer: bool,
    pub(super) is_batch: bool,
}

impl Envelope {
    /// Of a whole line.
    pub(super) fn of(line: &[u8]) -> Self {
        let mut scanner = Scanner::default();
        scanner.feed(line);
        scanner.finish()
    }
}

/// Longest key or id that is kept.
const MAX_WORD: usize = 512;

/// Walks over JSON without building it or insisting on it: strings, and how deep it is.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the state of a byte-wise scanner"
)]
struct Scanner {
    started: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The next string at depth 1 is a key.
    wants_key: bool,
    key: Vec<u8>,
    /// The value at depth 1 is that of `id`.
    in_id: bool,
    id: Vec<u8>,
    envelope: Envelope,
}

impl Scanner {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.step_in_string(byte);
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 && self.wants_key {
                    self.key.clear();
                }
            }
            b'{' | b'[' => {
                if !self.started {
                    self.envelope.is_batch = byte == b'[';
                    self.wants_key = byte == b'{';
                }
                self.depth += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 && self.wants_key => self.end_key(),
            b',' if self.depth == 1 && !self.envelope.is_batch => {
                self.wants_key = true;
                self.in_id = false;
            }
            _ => {}
        }
        self.started |= !byte.is_ascii_whitespace();
        if self.in_id && !matches!(byte, b':' | b'}') {
            self.keep_id(byte);
        }
    }

    fn step_in_string(&mut self, byte: u8) {
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        }
        if self.depth == 1 && self.wants_key && self.in_string && self.key.len() < MAX_WORD {
            self.key.push(byte);
        }
        if self.in_id {
            self.keep_id(byte);
        }
    }

    fn end_key(&mut self) {
        self.wants_key = false;
        match self.key.as_slice() {
            b"id" => {
                self.envelope.has_id = true;
                self.in_id = self.id.is_empty();
            }
            b"method" => self.envelope.has_method = true,
            b"result" | b"error" => self.envelope.has_answer = true,
            _ => {}
        }
    }

    fn keep_id(&mut self, byte: u8) {
        // One more than allowed marks it as unusable.
        if self.id.len() <= MAX_WORD {
            self.id.push(byte);
        }
    }

    fn finish(mut self) -> Envelope {
        if self.id.len() <= MAX_WORD {
            self.envelope.id = serde_json::from_slice(&self.id).ok();
        }
        self.envelope
    }
}

/// Says where text holds half of a surrogate pair, which is no character.
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
                    "a lone surrogate, \\u{value:04x}, at byte {}: it is half of a character, no text can hold it",
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
        Line::Whole(text.into())
    }

    #[tokio::test]
    async fn blank_lines_ends_of_windows_and_a_mark_are_skipped() {
        let input = b"\n\r\n  \n\xef\xbb\xbf{\"a\":1}\r\n{}\nlast";
        assert_eq!(
            lines(input, 100).await,
            [whole("{\"a\":1}"), whole("{}"), whole("last")]
        );
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_named_and_the_next_is_read() {
        let long = format!(
            "{{\"method\":\"x\",\"params\":\"{}\",\"id\":7}}\n{{\"a\":1}}\n",
            "y".repeat(1 << 20)
        );
        let found = lines(long.as_bytes(), 1000).await;
        let envelope = Envelope {
            id: Some(RequestId::Number(7)),
            has_id: true,
            has_method: true,
            ..Envelope::default()
        };
        assert_eq!(found, [Line::TooLong(envelope.clone()), whole("{\"a\":1}")]);
        let unended = lines(long.split('\n').next().expect("a line").as_bytes(), 1000).await;
        assert_eq!(unended, [Line::TooLong(envelope)]);
    }

    #[test]
    fn ids_are_found_in_what_is_no_json() {
        let check = |line: &str, id: Option<RequestId>| {
            assert_eq!(Envelope::of(line.as_bytes()).id, id, "{line}");
        };
        check(
            "{\"id\":1,\"method\":\"x\",\"params\":{bad",
            Some(RequestId::Number(1)),
        );
        check(
            "{\"params\":{\"id\":9,\"a\":\"\\ud800\"},\"id\":\"ab-1\"}",
            Some(RequestId::String("ab-1".into())),
        );
        check(
            "{\"x\":\"\\\"id\\\":5\",\"id\" : 6 }",
            Some(RequestId::Number(6)),
        );
        check("{\"params\":{\"id\":9}}", None);
        check("{\"id\":{\"a\":1}}", None);
        check("{\"id\":null}", None);
        check(&format!("{{\"id\":\"{}\"}}", "x".repeat(2000)), None);
        check("id:5", None);
        check("[{\"id\":1}]", None);
        assert!(Envelope::of(b" [{\"id\":1}]").is_batch);
        assert!(Envelope::of(b"{\"error\":{},\"id\":1}").has_answer);
        assert!(Envelope::of(b"{\"method\":\"a\"").has_method);
    }

    #[test]
    fn surrogates() {
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
        fn scanning_never_fails(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (Envelope::of(&bytes), lone_surrogate(&bytes));
        }

        #[test]
        fn the_id_of_a_message_is_found(id in any::<i64>(), text in ".*", nested in any::<i64>()) {
            let line = serde_json::json!({"params": {"id": nested, "code": text}, "id": id, "method": "m"}).to_string();
            prop_assert_eq!(Envelope::of(line.as_bytes()).id, Some(RequestId::Number(id)));
        }
    }
}
