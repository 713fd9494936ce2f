//! A server as a child process: started in a process group of its own, read whatever it writes, and
//! certainly ended.
//!
//! Three tasks serve the process (its input, its output, its stderr). One waits for its end; then
//! every waiting call fails with how the process ended and its last words.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bridge_common::lines::{EnvelopeScanner, Line, LineDecoder};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::inbox::{self, Inbox};
use crate::connection::{Connection, OnChange, Outbox};
use crate::failure::Failure;
use crate::group::Group;
use crate::message::Outgoing;
use crate::payload::LARGE;
use crate::redact::Redactor;
use bridge_catalog::ServerName;
use bridge_guardian::Guardian;

/// Messages that wait to be written, of any size; the senders of more wait.
const QUEUE: usize = 8;
/// Time to end after the input was closed, and then after SIGTERM.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
const TERM_GRACE: Duration = Duration::from_secs(1);
/// Time for the last output of a process that has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Time between closing the output and ending.
const END_AFTER_OUTPUT: Duration = Duration::from_millis(500);

/// The program to start, and what it needs.
pub(crate) struct Program {
    pub(crate) server: ServerName,
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: std::collections::BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    pub(crate) redactor: Redactor,
    pub(crate) guardian: Option<Guardian>,
    pub(crate) result_bytes: usize,
    /// Room for large answers, shared by all servers.
    pub(crate) large: Arc<Semaphore>,
}

/// A running server process. Clones are the same process.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) connection: Arc<Connection>,
    redactor: Redactor,
    stop: CancellationToken,
    ended: CancellationToken,
}

impl Process {
    /// Starts the program and the tasks that serve it.
    pub(crate) fn start(program: Program, on_change: OnChange) -> std::io::Result<Self> {
        let started = Instant::now();
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .env_clear()
            .envs(&program.environment)
            .current_dir(&program.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child
            .id()
            .and_then(|leader| Group::new(leader, program.guardian));
        let (Some(input), Some(output), Some(errors), Some(group)) = (
            child.stdin.take(),
            child.stdout.take(),
            child.stderr.take(),
            group,
        ) else {
            return Err(std::io::Error::other(
                "the process ended before it was attached",
            ));
        };

        let (sender, queue) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let ended = CancellationToken::new();
        let connection = Connection::new(program.server.clone(), Box::new(Pipe(sender)), on_change);
        let writer = tokio::spawn(write(input, queue, stop.clone()));
        let inbox = Inbox {
            connection: Arc::clone(&connection),
            result_bytes: program.result_bytes,
            large: program.large,
        };
        let reader = tokio::spawn(read(inbox, output));
        let drain = tokio::spawn({
            let (connection, redactor) = (Arc::clone(&connection), program.redactor.clone());
            async move {
                let server = connection.server();
                connection.tail.drain(&server.0, &redactor, errors).await;
            }
        });
        let process = Self {
            connection,
            redactor: program.redactor,
            stop,
            ended,
        };
        let watched = Watched {
            child,
            group,
            started,
            writer,
            reader,
            drain,
        };
        tokio::spawn(watched.watch(process.clone()));
        Ok(process)
    }

    /// Ends the process: closes its input, then sends SIGTERM, then SIGKILL. Returns when it is
    /// gone.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }

    /// What the server last wrote to stderr or logged, without secrets.
    pub(crate) fn last_words(&self) -> String {
        self.redactor
            .text(&self.connection.tail.text())
            .into_owned()
    }

    /// A guard that ends the process when dropped, unless disarmed.
    pub(crate) fn stop_guard(&self) -> StopGuard {
        StopGuard(self.stop.clone().drop_guard())
    }
}

/// Ends a process when dropped, unless disarmed.
pub(crate) struct StopGuard(DropGuard);

impl StopGuard {
    /// Lets the process live.
    pub(crate) fn disarm(self) {
        self.0.disarm();
    }
}

/// What the task that waits for the end owns.
struct Watched {
    child: Child,
    group: Group,
    started: Instant,
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
    drain: JoinHandle<()>,
}

impl Watched {
    async fn watch(mut self, process: Process) {
        let mut how = None;
        let status = tokio::select! {
            status = self.child.wait() => status.ok(),
            () = process.stop.cancelled() => {
                how = Some("was stopped".to_owned());
                self.end(CLOSE_GRACE).await
            }
            _ = &mut self.reader => {
                // Mostly the process is about to end, and how it ends says more.
                if let Ok(status) = timeout(END_AFTER_OUTPUT, self.child.wait()).await {
                    status.ok()
                } else {
                    how = Some("closed its output".to_owned());
                    self.end(Duration::ZERO).await
                }
            }
        };
        let lived = self.started.elapsed();
        // Children that the launcher left behind would hold the pipes open.
        self.group.kill();
        process.stop.cancel();
        if !self.reader.is_finished() && timeout(LAST_WORDS, &mut self.reader).await.is_err() {
            self.reader.abort();
        }
        if timeout(LAST_WORDS, &mut self.drain).await.is_err() {
            self.drain.abort();
        }
        self.writer.abort();
        let how = how.unwrap_or_else(|| status.map_or_else(|| "ended".to_owned(), describe));
        let mut reason = format!("{how} after {:.1} s", lived.as_secs_f64());
        let words = process.last_words();
        if !words.is_empty() {
            reason.push_str("; stderr: ");
            reason.push_str(&shortened(&words));
        }
        tracing::info!(server.name = %process.connection_name(), how, "server ended");
        process.connection.close(&reason);
        drop(self.group);
        process.ended.cancel();
    }

    /// Closes the input and waits `grace` for the end, then sends SIGTERM, then SIGKILL.
    async fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.writer.abort();
        if let Ok(status) = timeout(grace, self.child.wait()).await {
            return status.ok();
        }
        self.group.terminate();
        if let Ok(status) = timeout(TERM_GRACE, self.child.wait()).await {
            return status.ok();
        }
        self.group.kill();
        self.child.wait().await.ok()
    }
}

impl Process {
    fn connection_name(&self) -> &ServerName {
        self.connection.server()
    }
}

/// A known remedy for what a server says at its end.
fn hint(words: &str) -> Option<&'static str> {
    words.contains("Could not start dynamically linked executable").then_some(
        "on NixOS programs from elsewhere need programs.nix-ld.enable, or take the server from nixpkgs",
    )
}

/// The last lines of a text, for a message, with a remedy where one is known.
pub(crate) fn shortened(words: &str) -> String {
    const SHOWN: usize = 2000;
    let over = words.len().saturating_sub(SHOWN);
    let start = words
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| *at >= over)
        .unwrap_or(0);
    let mut text = match words[start..].split_once('\n') {
        Some((_, whole)) if start > 0 => format!("... {whole}"),
        _ => words[start..].to_owned(),
    };
    if let Some(hint) = hint(words) {
        text.push_str(" (");
        text.push_str(hint);
        text.push(')');
    }
    text
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;

    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => match rustix::process::Signal::from_named_raw(signal) {
            Some(named) => format!("was killed by {}", signal_name(named).unwrap_or("a signal")),
            None => format!("was killed by signal {signal}"),
        },
        (None, None) => "ended".to_owned(),
    }
}

fn signal_name(signal: rustix::process::Signal) -> Option<&'static str> {
    use rustix::process::Signal;

    Some(match signal {
        Signal::ABORT => "SIGABRT",
        Signal::BUS => "SIGBUS",
        Signal::FPE => "SIGFPE",
        Signal::HUP => "SIGHUP",
        Signal::ILL => "SIGILL",
        Signal::INT => "SIGINT",
        Signal::KILL => "SIGKILL (out of memory?)",
        Signal::PIPE => "SIGPIPE",
        Signal::SEGV => "SIGSEGV",
        Signal::TERM => "SIGTERM",
        _ => return None,
    })
}

/// The server's standard input, by way of the task that writes it.
struct Pipe(mpsc::Sender<Vec<u8>>);

fn line(message: Outgoing) -> Vec<u8> {
    let mut line = message.into_text().into_bytes();
    line.push(b'\n');
    line
}

#[async_trait]
impl Outbox for Pipe {
    async fn send(&self, message: Outgoing) -> Result<(), Failure> {
        let closed = |_| Failure::Closed {
            reason: "its input is closed".to_owned(),
            sent: false,
        };
        self.0.send(line(message)).await.map_err(closed)
    }

    fn try_send(&self, message: Outgoing) -> bool {
        self.0.try_send(line(message)).is_ok()
    }
}

/// Reads what the server writes to its standard output, to the end.
async fn read(inbox: Inbox, mut output: ChildStdout) {
    const PIECE: usize = 64 * 1024;
    let mut lines = LineDecoder::<EnvelopeScanner>::new(inbox.message_bytes());
    let mut buffer = BytesMut::new();
    let mut room = None;
    loop {
        buffer.reserve(PIECE);
        let ended = matches!(output.read_buf(&mut buffer).await, Ok(0) | Err(_));
        lines.push(buffer.split().freeze());
        while let Some(line) = lines
            .next_line()
            .or_else(|| ended.then(|| lines.finish()).flatten())
        {
            let messages = match line {
                Line::Whole(text) => inbox.read(text).await,
                Line::TooLong { bytes, summary } => vec![inbox::too_large(&summary, bytes)],
            };
            inbox.deliver(messages, room.take());
        }
        if ended {
            return;
        }
        // As on any full pipe, a server that writes more than there is room for waits.
        if lines.pending() > LARGE && room.is_none() {
            room = inbox.room().await;
        }
    }
}

async fn write(mut input: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>, stop: CancellationToken) {
    // Small messages that wait together are written together.
    const TOGETHER: usize = 64 * 1024;
    loop {
        let next = tokio::select! {
            next = queue.recv() => next,
            () = stop.cancelled() => None,
        };
        let Some(mut batch) = next else { return };
        while batch.len() < TOGETHER
            && let Ok(more) = queue.try_recv()
        {
            batch.extend_from_slice(&more);
        }
        if input.write_all(&batch).await.is_err() {
            break;
        }
    }
    // The server no longer reads, and will soon be seen to have ended. Until then senders must not
    // wait for room.
    while queue.recv().await.is_some() {}
}
