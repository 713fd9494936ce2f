//! Frames in the log, at level `trace` only: for whoever follows a session by hand
//! (CONTRIBUTING.md).

use std::fmt::Write as _;

use tracing::Level;

/// Bytes of a frame that are shown; the rest is counted only.
const SHOWN: usize = 2 << 10;

/// Logs one frame. What is logged has no control characters: a guest may send any bytes.
pub(super) fn frame(direction: &'static str, line: &[u8]) {
    if tracing::enabled!(Level::TRACE) {
        tracing::trace!("{direction} {}", shown(line));
    }
}

fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let head = &line[..line.len().min(SHOWN)];
    let mut text = String::from_utf8_lossy(head).replace(char::is_control, "\u{fffd}");
    if line.len() > head.len() {
        let _ = write!(text, " ... {} more bytes", line.len() - head.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_frames_are_cut_and_control_characters_replaced() {
        assert_eq!(shown(b"{\"a\":1}\n"), "{\"a\":1}");
        assert_eq!(shown(b"\x1b[2J"), "\u{fffd}[2J");
        let long = shown(&vec![b'x'; SHOWN + 7]);
        assert!(long.ends_with("x ... 7 more bytes"), "{long}");
    }
}
