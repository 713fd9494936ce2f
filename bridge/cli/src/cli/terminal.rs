//! Writes to stdout and stderr; nothing else does. A closed pipe is not an error, as nobody would
//! read about it.

use std::io::{self, Write};

use bridge_common::host::HostEnv;
use bridge_render::visible;

/// Writes bytes to stdout as they are.
pub(super) fn out(bytes: &[u8]) -> io::Result<()> {
    ignore_broken_pipe(write(&mut io::stdout().lock(), bytes))
}

/// Writes bytes to stderr as they are.
pub(super) fn err(bytes: &[u8]) -> io::Result<()> {
    ignore_broken_pipe(write(&mut io::stderr().lock(), bytes))
}

/// Writes a message of the program to stderr. What it quotes cannot move the cursor.
pub(super) fn say(line: &str) {
    // An error of stderr itself cannot be reported anywhere.
    let _ = err(format!("mcp-code-bridge: {}\n", visible(line)).as_bytes());
}

fn write(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

fn ignore_broken_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Whether to colour what is written to a stream: only on a terminal, and unless `NO_COLOR` is set.
pub(super) fn coloured(host: &HostEnv, is_terminal: bool) -> bool {
    is_terminal && !host.no_colour()
}
