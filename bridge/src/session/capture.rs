//! What user code wrote, kept up to a limit that holds whatever the guest does.

use super::Captured;
use crate::guest::StreamKind;

/// Both streams of one run.
#[derive(Debug, Default)]
pub(super) struct Capture {
    /// Standard output.
    pub(super) stdout: Captured,
    /// Standard error.
    pub(super) stderr: Captured,
}

/// How far it has been read: bytes kept and bytes dropped of each stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    stdout: (usize, u64),
    stderr: (usize, u64),
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
        let over = (bytes.len() - room) as u64;
        stream.dropped = stream.dropped.saturating_add(over);
    }

    /// Where its end is now.
    pub(super) fn position(&self) -> Position {
        let of = |stream: &Captured| (stream.bytes.len(), stream.dropped);
        Position {
            stdout: of(&self.stdout),
            stderr: of(&self.stderr),
        }
    }

    /// What has come since its end was there.
    pub(super) fn after(&self, position: Position) -> Self {
        let of = |stream: &Captured, (bytes, dropped): (usize, u64)| Captured {
            bytes: stream.bytes.get(bytes..).unwrap_or_default().to_vec(),
            dropped: stream.dropped.saturating_sub(dropped),
        };
        Self {
            stdout: of(&self.stdout, position.stdout),
            stderr: of(&self.stderr, position.stderr),
        }
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.stdout.bytes.len() + self.stderr.bytes.len()
    }

    /// Adds what the guest says that it dropped.
    pub(super) fn drop_more(&mut self, stdout: u64, stderr: u64) {
        self.stdout.dropped = self.stdout.dropped.saturating_add(stdout);
        self.stderr.dropped = self.stderr.dropped.saturating_add(stderr);
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
        capture.drop_more(u64::MAX, 1);
        assert_eq!(capture.stdout.bytes, b"abcd");
        assert_eq!(capture.stdout.dropped, u64::MAX);
        assert_eq!(capture.stderr.bytes, b"xyz");
        assert_eq!(capture.stderr.dropped, 1);
        assert_eq!(capture.bytes(), 7);
    }

    #[test]
    fn what_was_read_is_not_read_again() {
        let mut capture = Capture::default();
        capture.push(StreamKind::Stdout, b"ab", 3);
        let position = capture.position();
        capture.push(StreamKind::Stdout, b"cde", 3);
        capture.push(StreamKind::Stderr, b"x", 3);
        let rest = capture.after(position);
        assert_eq!(
            (&rest.stdout.bytes[..], rest.stdout.dropped),
            (&b"c"[..], 2)
        );
        assert_eq!(rest.stderr.bytes, b"x");
        let nothing = capture.after(capture.position());
        assert_eq!((nothing.bytes(), nothing.stdout.dropped), (0, 0));
    }
}
