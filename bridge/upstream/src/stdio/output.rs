//! What a server process writes to its standard output, as messages.
//!
//! Tolerates what real servers print there: banners, blank lines, byte order marks, carriage returns. What is no message
//! is counted and never answered; an answer that is too large or no JSON fails the call that it belongs to.

use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::Connection;
use crate::lines::{Line, Lines};
use crate::message::{Answer, Incoming, sniff_id, start_of};
use crate::payload::{ENVELOPE, LARGE};

/// Parsing more than this would hold up the other tasks of the thread.
const PARSE_APART: usize = 256 * 1024;

/// What the task that reads has to know.
pub(super) struct Reader {
    pub(super) connection: Arc<Connection>,
    pub(super) result_bytes: usize,
    pub(super) large: Arc<Semaphore>,
}

impl Reader {
    /// Reads to the end.
    pub(super) async fn read(self, mut output: ChildStdout) {
        // Longer ones cannot hold a result that may pass.
        let mut lines = Lines::new(self.result_bytes + 2 * ENVELOPE);
        let mut buffer = vec![0; 64 * 1024];
        let mut complete = Vec::new();
        let mut claim = None;
        loop {
            let count = output.read(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                complete.extend(lines.rest());
            } else {
                lines.push(&buffer[..count], &mut |line| complete.push(line));
            }
            for line in complete.drain(..) {
                self.take(line, claim.take()).await;
            }
            if count == 0 {
                return;
            }
            // Whoever writes so much waits until there is room, as on any full pipe.
            if lines.pending() > LARGE && claim.is_none() {
                claim = Arc::clone(&self.large).acquire_owned().await.ok();
            }
        }
    }

    async fn take(&self, line: Line, claim: Option<OwnedSemaphorePermit>) {
        let result_bytes = self.result_bytes;
        let messages = match &line {
            Line::Whole(bytes) if bytes.len() > PARSE_APART => {
                tokio::task::spawn_blocking(move || parse(line, result_bytes))
                    .await
                    .unwrap_or_default()
            }
            _ => parse(line, result_bytes),
        };
        let mut claim = claim;
        for message in messages {
            self.connection.receive(match message {
                Incoming::Answer {
                    id,
                    answer: Answer::Result(result),
                } => Incoming::Answer {
                    id,
                    answer: Answer::Result(result.claimed(claim.take())),
                },
                message => message,
            });
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
    let mut messages = Vec::new();
    match Incoming::read(text, &mut |message| {
        messages.push(limited(message, result_bytes));
    }) {
        Ok(()) => messages,
        Err(error) => {
            messages.clear();
            Incoming::salvage(text, &mut |message| {
                messages.push(limited(message, result_bytes));
            });
            if messages.is_empty() {
                vec![broken(text, &error)]
            } else {
                messages.insert(0, Incoming::NonProtocol(start_of(text)));
                messages
            }
        }
    }
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
            answer: Answer::Malformed(format!("it is no JSON, {error}")),
        },
        None => Incoming::NonProtocol(start_of(text)),
    }
}

/// Results are allowed up to a size.
pub(crate) fn limited(message: Incoming, result_bytes: usize) -> Incoming {
    match message {
        Incoming::Answer {
            id,
            answer: Answer::Result(result),
        } if result.get().len() > result_bytes + ENVELOPE => Incoming::Answer {
            id,
            answer: Answer::TooLarge {
                bytes: result.get().len() as u64,
            },
        },
        message => message,
    }
}
