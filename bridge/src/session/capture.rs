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
    }
}
