//! The one place that writes to stdout and stderr. A reader that has gone away is no error: nobody is left to be told.

use std::io::{self, Write};

use bridge_render::visible;
use bridge_settings::no_colour;

/// Bytes to stdout, exactly.
pub(super) fn out(bytes: &[u8]) -> io::Result<()> {
    forgive(write(&mut io::stdout().lock(), bytes))
}

/// Bytes to stderr, exactly.
pub(super) fn err(bytes: &[u8]) -> io::Result<()> {
    forgive(write(&mut io::stderr().lock(), bytes))
}

/// A line of the program's own to stderr. What it quotes cannot move the cursor.
pub(super) fn say(line: &str) {
    // Without a stderr there is nowhere to complain.
    let _ = err(format!("mcp-code-bridge: {}\n", visible(line)).as_bytes());
}

fn write(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

fn forgive(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Colours are wanted: a terminal, and nobody said no.
pub(super) fn coloured(is_terminal: bool) -> bool {
    is_terminal && !no_colour()
}
