//! What user code wrote, kept up to a limit that holds whatever the guest does.

use super::{Captured, Displays};
use crate::guest::{Dropped, StreamKind};

/// Bytes kept of the end of a stream that is over its limit.
const TAIL: usize = 64 << 10;

/// Both streams of one run, and what it shows.
#[derive(Debug, Default)]
pub(super) struct Capture {
    /// Standard output.
    pub(super) stdout: Captured,
    /// Standard error.
    pub(super) stderr: Captured,
    /// Pictures and documents.
    pub(super) displays: Displays,
}

impl Capture {
    /// Keeps what fits below `limit` and counts the rest.
    pub(super) fn push(&mut self, kind: StreamKind, bytes: &[u8], limit: u64) {
        let stream = match kind {
            StreamKind::Stdout => &mut self.stdout,
            StreamKind::Stderr => &mut self.stderr,
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let room = limit.saturating_sub(stream.bytes.len()).min(bytes.len());
        stream.bytes.extend_from_slice(&bytes[..room]);
        if room < bytes.len() {
            let over = &bytes[room..];
            let lines = memchr::memchr_iter(b'\n', over).count() as u64;
            stream.dropped = stream.dropped.saturating_add(over.len() as u64);
            stream.dropped_lines = stream.dropped_lines.saturating_add(lines);
        }
    }

    /// Holds what was kept under another limit to this one.
    pub(super) fn cut(&mut self, limit: u64) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        for stream in [&mut self.stdout, &mut self.stderr] {
            let over = stream.bytes.split_off(limit.min(stream.bytes.len()));
            let lines = memchr::memchr_iter(b'\n', &over).count() as u64;
            stream.dropped = stream.dropped.saturating_add(over.len() as u64);
            stream.dropped_lines = stream.dropped_lines.saturating_add(lines);
        }
    }

    /// Adds what the guest says that it dropped of each stream.
    pub(super) fn drop_more(&mut self, dropped: [Dropped; 2]) {
        for (stream, dropped) in [&mut self.stdout, &mut self.stderr]
            .into_iter()
            .zip(dropped)
        {
            stream.dropped = stream.dropped.saturating_add(dropped.bytes);
            // It cannot have dropped more lines than bytes, whatever it says.
            stream.dropped_lines = stream
                .dropped_lines
                .saturating_add(dropped.lines.min(dropped.bytes));
            stream.lost = dropped.lost.min(stream.total());
            let most = usize::try_from(stream.dropped).unwrap_or(TAIL).min(TAIL);
            stream.tail = dropped.tail;
            stream.tail.drain(..stream.tail.len().saturating_sub(most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_for_each_stream_and_the_rest_is_counted() {
        let mut capture = Capture::default();
        capture.push(StreamKind::Stdout, b"abc", 4);
        capture.push(StreamKind::Stdout, b"def", 4);
        capture.push(StreamKind::Stdout, b"ghi", 4);
        capture.push(StreamKind::Stderr, b"xyz", 4);
        let said = |bytes, tail: &[u8]| Dropped {
            bytes,
            lines: 9,
            lost: u64::MAX,
            tail: tail.to_vec(),
        };
        capture.drop_more([said(u64::MAX, b"tail"), said(1, b"a\nb")]);
        assert_eq!(capture.stdout.bytes, b"abcd");
        assert_eq!(capture.stdout.dropped, u64::MAX);
        assert_eq!(capture.stdout.tail, b"tail");
        assert_eq!(capture.stderr.bytes, b"xyz");
        assert_eq!(
            (capture.stderr.dropped, capture.stderr.dropped_lines),
            (1, 1)
        );
        assert_eq!(
            (capture.stderr.tail.as_slice(), capture.stderr.lost),
            (&b"b"[..], 4)
        );
        capture.cut(2);
        assert_eq!(
            (capture.stderr.bytes.as_slice(), capture.stderr.dropped),
            (&b"xy"[..], 2)
        );
    }
}
