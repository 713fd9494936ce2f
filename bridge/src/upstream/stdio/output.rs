//! What a server process writes to its standard output, as messages.
//!
//! Tolerates what real servers print there: banners, blank lines, byte order marks, carriage returns. What is no message
//! is counted and never answered; an answer that is too large or no JSON fails the call that it belongs to.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;

use crate::catalog::ServerName;
use crate::upstream::connection::Connection;
use crate::upstream::lines::{Line, Lines};
use crate::upstream::message::{Answer, Incoming, sniff_id, start_of};

/// Longer lines are not kept at all.
const LONGEST_LINE: usize = 64 * 1024 * 1024;
/// What an answer may have around its result.
const ENVELOPE: usize = 64 * 1024;
/// Parsing more than this would hold up the other tasks of the thread.
const PARSE_APART: usize = 256 * 1024;

/// Reads to the end.
pub(super) async fn read(
    mut output: ChildStdout,
    connection: Arc<Connection>,
    server: ServerName,
    result_bytes: usize,
) {
    let mut lines = Lines::new(LONGEST_LINE);
    let mut buffer = vec![0; 64 * 1024];
    let mut complete = Vec::new();
    loop {
        let count = output.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            complete.extend(lines.rest());
        } else {
            lines.push(&buffer[..count], &mut |line| complete.push(line));
        }
        for line in complete.drain(..) {
            let size = match &line {
                Line::Whole(bytes) => bytes.len(),
                Line::TooLong { .. } => 0,
            };
            let messages = if size > PARSE_APART {
                let parsed = tokio::task::spawn_blocking(move || parse(line, result_bytes)).await;
                parsed.unwrap_or_default()
            } else {
                parse(line, result_bytes)
            };
            for message in messages {
                connection.receive(message);
            }
        }
        if count == 0 {
            tracing::debug!(server.name = %server, "server closed its output");
            return;
        }
    }
}

/// The messages in one line: none in a blank one, several in a batch.
fn parse(line: Line, result_bytes: usize) -> Vec<Incoming> {
    let bytes = match line {
        Line::Whole(bytes) => bytes,
        Line::TooLong { head, tail, bytes } => {
            return vec![Incoming::Answer {
                id: sniff_id(&head, &tail),
                answer: Answer::TooLarge { bytes },
            }];
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Vec::new();
    }
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return vec![broken(text, &error)],
    };
    let mut messages = Vec::new();
    Incoming::read(value, &mut |message| {
        messages.push(limited(message, bytes.len(), result_bytes));
    });
    messages
}

/// A line that is no JSON: banners and prints, or an answer with `NaN` in it.
fn broken(text: &str, error: &serde_json::Error) -> Incoming {
    const END: usize = 512;
    let ends = (
        &text.as_bytes()[..text.len().min(END)],
        &text.as_bytes()[text.len().saturating_sub(END)..],
    );
    match sniff_id(ends.0, ends.1).filter(|_| text.starts_with('{')) {
        Some(id) => Incoming::Answer {
            id: Some(id),
            answer: Answer::Malformed(error.to_string()),
        },
        None => Incoming::Junk(start_of(text)),
    }
}

fn limited(message: Incoming, line_bytes: usize, result_bytes: usize) -> Incoming {
    match message {
        Incoming::Answer {
            id,
            answer: Answer::Result(result),
        } if line_bytes > result_bytes => {
            let bytes = size_of(&result);
            let answer = if bytes > result_bytes + ENVELOPE {
                Answer::TooLarge {
                    bytes: bytes as u64,
                }
            } else {
                Answer::Result(result)
            };
            Incoming::Answer { id, answer }
        }
        message => message,
    }
}

/// Bytes of a value as compact JSON.
pub(in crate::upstream) fn size_of(value: &Value) -> usize {
    struct Counter(usize);

    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}
