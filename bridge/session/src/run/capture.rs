//! What user code wrote, kept up to a limit that holds whatever the guest does.

use super::display::Displays;
use super::outcome::Captured;
use bridge_wire::{Dropped, StreamKind};

/// Bytes kept of the end of a stream that is over its limit.
const TAIL: usize = 64 << 10;

/// Both streams of one run, and what the run shows.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// Standard output of the run.
    pub(crate) stdout: Captured,
    /// Standard error of the run.
    pub(crate) stderr: Captured,
    /// Pictures and documents of the run.
    pub(crate) displays: Displays,
}

/// How far a capture has been read: bytes kept, and bytes and lines dropped, of each stream;
/// displays kept and dropped.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    stdout: (usize, u64, u64),
    stderr: (usize, u64, u64),
    displays: (usize, u64),
}

impl Capture {
    /// Keeps what fits below `limit` and counts the rest.
    pub(crate) fn push(&mut self, kind: StreamKind, bytes: &[u8], limit: u64) {
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

    /// Where the capture ends now.
    pub(crate) fn position(&self) -> Position {
        let of = |stream: &Captured| (stream.bytes.len(), stream.dropped, stream.dropped_lines);
        Position {
            stdout: of(&self.stdout),
            stderr: of(&self.stderr),
            displays: (self.displays.shown.len(), self.displays.left_out),
        }
    }

    /// What has come since the capture ended at `position`.
    pub(crate) fn after(&self, position: Position) -> Self {
        let of = |stream: &Captured, (bytes, dropped, lines): (usize, u64, u64)| Captured {
            bytes: stream.bytes.get(bytes..).unwrap_or_default().to_vec(),
            dropped: stream.dropped.saturating_sub(dropped),
            dropped_lines: stream.dropped_lines.saturating_sub(lines),
            tail: stream.tail.clone(),
            lost: stream.lost,
        };
        let (shown, left_out) = position.displays;
        Self {
            stdout: of(&self.stdout, position.stdout),
            stderr: of(&self.stderr, position.stderr),
            displays: self.displays.after(shown, left_out),
        }
    }

    /// Bytes that the capture holds.
    pub(crate) fn bytes(&self) -> usize {
        let of = |stream: &Captured| stream.bytes.len() + stream.tail.len();
        of(&self.stdout) + of(&self.stderr) + self.displays.bytes()
    }

    /// Cuts what was kept under another limit down to this one.
    pub(crate) fn cut(&mut self, limit: u64) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        for stream in [&mut self.stdout, &mut self.stderr] {
            let over = stream.bytes.split_off(limit.min(stream.bytes.len()));
            let lines = memchr::memchr_iter(b'\n', &over).count() as u64;
            stream.dropped = stream.dropped.saturating_add(over.len() as u64);
            stream.dropped_lines = stream.dropped_lines.saturating_add(lines);
        }
    }

    /// Adds what was captured elsewhere meanwhile.
    pub(crate) fn add(&mut self, more: Self, limit: u64) {
        self.push(StreamKind::Stdout, &more.stdout.bytes, limit);
        self.push(StreamKind::Stderr, &more.stderr.bytes, limit);
        for (stream, more) in [
            (&mut self.stdout, more.stdout),
            (&mut self.stderr, more.stderr),
        ] {
            stream.dropped = stream.dropped.saturating_add(more.dropped);
            stream.dropped_lines = stream.dropped_lines.saturating_add(more.dropped_lines);
        }
        for display in more.displays.shown {
            let content = display.content.as_bytes().to_vec();
            self.displays.push(display.mime, content);
        }
    }

    /// Adds what the guest says it dropped of each stream.
    pub(crate) fn drop_more(&mut self, dropped: [Dropped; 2]) {
        for (stream, dropped) in [&mut self.stdout, &mut self.stderr]
            .into_iter()
            .zip(dropped)
        {
            stream.dropped = stream.dropped.saturating_add(dropped.bytes);
            // A guest cannot have dropped more lines than bytes, whatever it says.
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
        let mut more = Capture::default();
        more.push(StreamKind::Stderr, b"more", 3);
        capture.add(more, 4);
        assert_eq!(
            (capture.stderr.bytes.as_slice(), capture.stderr.dropped),
            (&b"xymo"[..], 4)
        );
        assert_eq!(capture.bytes(), 11);
    }

    #[test]
    fn what_was_read_is_not_read_again() {
        let mut capture = Capture::default();
        capture.push(StreamKind::Stdout, b"ab", 3);
        let position = capture.position();
        capture.push(StreamKind::Stdout, b"c\ne", 3);
        capture.push(StreamKind::Stderr, b"x", 3);
        capture.displays.push("text/html", b"<p>".to_vec());
        let rest = capture.after(position);
        assert_eq!(
            (
                &rest.stdout.bytes[..],
                rest.stdout.dropped,
                rest.stdout.dropped_lines
            ),
            (&b"c"[..], 2, 1)
        );
        assert_eq!(rest.stderr.bytes, b"x");
        assert_eq!(rest.displays.shown.len(), 1);
        let nothing = capture.after(capture.position());
        assert_eq!((nothing.bytes(), nothing.stdout.dropped), (0, 0));
    }
}
