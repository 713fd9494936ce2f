//! Runs the bridge's command line to its end under a deadline.

use std::io::{Read, Write};
use std::process::Stdio;

use crate::bridge::Builder;
use crate::wait::{limit, until};

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    /// Exit status; `None` after a signal.
    pub code: Option<i32>,
    /// Everything on standard output.
    pub stdout: String,
    /// Everything on standard error.
    pub stderr: String,
    /// Process ID that the command had.
    pub pid: u32,
}

/// Runs a command line to its end.
///
/// # Panics
/// If it cannot be started or does not end in time.
#[must_use]
pub fn run(builder: Builder<'_>, arguments: &[&str], input: &[u8]) -> Ran {
    let (mut command, _home) = builder.command();
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the bridge can be started");
    let mut stdin = child.stdin.take().expect("its standard input is a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input); // the command may not read it
    });
    let stdout = reader(child.stdout.take().expect("its standard output is a pipe"));
    let stderr = reader(child.stderr.take().expect("its standard error is a pipe"));
    let pid = child.id();
    let status = until(limit(60), "the command to end", || {
        child.try_wait().expect("a child can be waited for")
    });
    let _ = writer.join();
    Ran {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
        pid,
    }
}

fn reader(mut output: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.read_to_end(&mut bytes);
        bytes
    })
}

fn text(reader: std::thread::JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}
