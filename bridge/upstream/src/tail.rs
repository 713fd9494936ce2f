//! The end of what a server wrote to its standard error, and of its log messages: always read,
//! never more than a few KiB kept.
//!
//! A server whose stderr is not read blocks as soon as the pipe is full; its last words are what an
//! error should quote.

use bridge_common::Mutex;
use bridge_common::lines::{Head, Line, LineDecoder};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::redact::Redactor;

/// Bytes kept for messages.
const KEPT: usize = 8 * 1024;
/// The most bytes of a line in the log; longer lines are cut.
const LINE: usize = 16 * 1024;

/// The last words of one process.
#[derive(Debug, Default)]
pub(super) struct Tail(Mutex<Vec<u8>>);

impl Tail {
    /// Reads `stream` to its end, whatever comes.
    pub(super) async fn drain(
        &self,
        server: &str,
        redactor: &Redactor,
        mut stream: impl AsyncRead + Unpin,
    ) {
        let mut lines = LineDecoder::<Head>::new(LINE);
        let mut buffer = vec![0; 16 * 1024];
        let log = |line: Line<Vec<u8>>| {
            let (bytes, cut) = match &line {
                Line::Whole(bytes) => (&bytes[..], false),
                Line::TooLong { summary, .. } => (&summary[..], true),
            };
            let text = String::from_utf8_lossy(bytes);
            tracing::debug!(server.name = server, line = %redactor.text(text.trim_end()), cut, "server wrote to stderr");
        };
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..count]);
            lines.push(Bytes::copy_from_slice(&buffer[..count]));
            while let Some(line) = lines.next_line() {
                log(line);
            }
        }
        lines.finish().into_iter().for_each(log);
    }

    /// Adds a line that the server logged in another way.
    pub(super) fn note(&self, line: &str) {
        self.push(line.trim_end().as_bytes());
        self.push(b"\n");
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock();
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let over = (kept.len() + bytes.len()).saturating_sub(KEPT);
        kept.drain(..over);
        kept.extend_from_slice(bytes);
    }

    /// The last lines as text, without control characters; empty when there were none.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock();
        let text = String::from_utf8_lossy(&kept);
        // The beginning of the first line may be cut off.
        let whole = match text.split_once('\n') {
            Some((_, rest)) if kept.len() == KEPT && !rest.trim().is_empty() => rest,
            _ => &text,
        };
        plain(whole.trim())
    }
}

/// Text without terminal escapes and other control characters.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' if characters.next_if_eq(&'[').is_some() => {
                while characters
                    .next()
                    .is_some_and(|character| !('@'..='~').contains(&character))
                {}
            }
            '\n' | '\t' => plain.push(character),
            _ if character.is_control() => {}
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_last_whole_lines_are_kept() {
        let tail = Tail::default();
        let lines: Vec<String> = (0..10_000).map(|line| format!("line {line}\n")).collect();
        let text = lines.concat();
        tail.drain("x", &Redactor::default(), text.as_bytes()).await;
        let text = tail.text();
        assert!(text.len() <= KEPT && text.ends_with("line 9999"), "{text}");
        assert!(text.starts_with("line "), "{}", &text[..20]);
    }

    #[tokio::test]
    async fn a_line_without_end_does_not_grow() {
        let tail = Tail::default();
        tail.drain(
            "x",
            &Redactor::default(),
            tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 3_000_000),
        )
        .await;
        assert_eq!(tail.text().len(), KEPT);
    }

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(
            plain("\u{1b}[1;31mError\u{1b}[0m: no\r\n\tx\u{7}"),
            "Error: no\n\tx"
        );
    }
}
