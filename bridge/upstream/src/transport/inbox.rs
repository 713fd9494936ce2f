//! What a server sends, over either transport: read into messages within one size bound, and handed
//! to the connection.
//!
//! Tolerates what real servers write: byte order marks, blank lines, banners. Text that is not a
//! message is counted and never answered; an answer that is too large or broken fails the call that
//! it belongs to.

use std::sync::Arc;

use bridge_common::lines::Envelope;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::Connection;
use crate::message::{Incoming, Outcome, our_id, start_of};
use crate::payload::ENVELOPE;

/// Parsing more bytes than this would hold up the other tasks of the thread.
const PARSE_APART: usize = 256 * 1024;

/// Takes in what one server sends. Clones serve the same connection.
#[derive(Clone)]
pub(super) struct Inbox {
    pub(super) connection: Arc<Connection>,
    /// The size of the largest result that passes.
    pub(super) result_bytes: usize,
    /// Room for large answers, shared by all servers.
    pub(super) large: Arc<Semaphore>,
}

impl Inbox {
    /// The most bytes that one message may have: longer ones cannot hold a result that passes.
    pub(super) fn message_bytes(&self) -> usize {
        self.result_bytes + 2 * ENVELOPE
    }

    /// Waits for room for a large answer: a server that sends so much is read no further until
    /// then.
    pub(super) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.large).acquire_owned().await.ok()
    }

    /// The messages in a text: none in a blank one, several in a batch.
    pub(super) async fn read(&self, text: Bytes) -> Vec<Incoming> {
        let result_bytes = self.result_bytes;
        if text.len() <= PARSE_APART {
            return parse(&text, result_bytes);
        }
        tokio::task::spawn_blocking(move || parse(&text, result_bytes))
            .await
            .unwrap_or_default()
    }

    /// Hands messages to the connection. The first result holds the claimed room until it is passed
    /// on.
    pub(super) fn deliver(&self, messages: Vec<Incoming>, mut room: Option<OwnedSemaphorePermit>) {
        for message in messages {
            self.connection.receive(match message {
                Incoming::Response {
                    id,
                    outcome: Outcome::Result(result),
                } => Incoming::Response {
                    id,
                    outcome: Outcome::Result(result.claimed(room.take())),
                },
                message => message,
            });
        }
    }
}

/// What is left of an answer over the limit.
pub(super) fn too_large(envelope: &Envelope, bytes: u64) -> Incoming {
    Incoming::Response {
        id: envelope.id.as_ref().and_then(our_id),
        outcome: Outcome::TooLarge { bytes },
    }
}

fn parse(bytes: &[u8], result_bytes: usize) -> Vec<Incoming> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Vec::new();
    }
    let mut messages = Vec::new();
    let read = Incoming::read(text, &mut |message| {
        messages.push(limited(message, result_bytes));
    });
    let Err(error) = read else { return messages };
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

/// Text that is not JSON: banners and prints, or an answer with `NaN` in it.
fn broken(text: &str, error: &serde_json::Error) -> Incoming {
    let envelope = if text.starts_with('{') {
        Envelope::of(text.as_bytes())
    } else {
        Envelope::default()
    };
    match envelope.id.as_ref().and_then(our_id) {
        Some(id) if !envelope.has_method => Incoming::Response {
            id: Some(id),
            outcome: Outcome::Malformed(format!("it is not valid JSON, {error}")),
        },
        _ => Incoming::NonProtocol(start_of(text)),
    }
}

/// Fails an answer whose result is larger than allowed.
fn limited(message: Incoming, result_bytes: usize) -> Incoming {
    match message {
        Incoming::Response {
            id,
            outcome: Outcome::Result(result),
        } if result.get().len() > result_bytes + ENVELOPE => Incoming::Response {
            id,
            outcome: Outcome::TooLarge {
                bytes: result.get().len() as u64,
            },
        },
        message => message,
    }
}
