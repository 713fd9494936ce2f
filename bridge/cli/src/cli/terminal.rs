//! The one place that writes to stdout and stderr. A reader that has gone away is no error: nobody is left to be told.

use std::io::{self, Write};

use bridge_common::host::HostEnv;
use bridge_render::visible;

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

/// Whether to colour what is written to a stream: only on a terminal, and unless `NO_COLOR` is set.
pub(super) fn coloured(host: &HostEnv, is_terminal: bool) -> bool {
    is_terminal && !host.no_colour()
}
