//! Streams of events, with a bound on the size of each.

use std::sync::Arc;

use bridge_common::Mutex;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use sse_stream::{Sse, SseStream};
use tokio::sync::OwnedSemaphorePermit;

use crate::failure::TransportError;
use crate::payload::LARGE;
use crate::transport::inbox::Inbox;

/// The media type of a stream of events.
pub(super) const MEDIA_TYPE: &str = "text/event-stream";

/// An event, and the room that was claimed where it is large.
pub(super) type Event = (Sse, Option<OwnedSemaphorePermit>);

/// Why a stream of events broke off.
pub(super) enum EventError {
    /// One event is over the size limit.
    TooLarge,
    /// The stream cannot be read any further.
    Broken(TransportError),
}

/// The events of a response. Reading waits for room while an event is large.
pub(super) fn of(
    response: reqwest::Response,
    inbox: Inbox,
) -> BoxStream<'static, Result<Event, EventError>> {
    let room = Arc::new(Mutex::new(None));
    let bytes = bounded(response, inbox, Arc::clone(&room));
    SseStream::from_bytes_stream(bytes)
        .map_ok(move |event| (event, room.lock().take()))
        .map_err(|error| match error {
            sse_stream::Error::Body(error) => match error.downcast::<BodyError>() {
                Ok(error) => match *error {
                    BodyError::TooLarge => EventError::TooLarge,
                    BodyError::Broken(error) => EventError::Broken(error.into()),
                },
                Err(error) => broken(sse_stream::Error::Body(error)),
            },
            error => broken(error),
        })
        .boxed()
}

fn broken(error: sse_stream::Error) -> EventError {
    EventError::Broken(TransportError::Events(Arc::new(error)))
}

#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("an event is too large")]
    TooLarge,
    #[error("the connection failed")]
    Broken(#[from] reqwest::Error),
}

/// The bytes of a response. They end with an error where one event grows too large: an event ends
/// with an empty line.
fn bounded(
    response: reqwest::Response,
    inbox: Inbox,
    room: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
) -> impl Stream<Item = Result<Bytes, BodyError>> {
    let start = (response, inbox, room, EventSize::default());
    futures_util::stream::try_unfold(start, async |(mut response, inbox, room, mut size)| {
        let Some(chunk) = response.chunk().await? else {
            return Ok(None);
        };
        size.add(&chunk);
        if size.bytes > inbox.message_bytes() {
            return Err(BodyError::TooLarge);
        }
        if size.bytes > LARGE && room.lock().is_none() {
            let claim = inbox.room().await;
            *room.lock() = claim;
        }
        Ok(Some((chunk, (response, inbox, room, size))))
    })
}

/// Counts the bytes of the event at hand.
#[derive(Default)]
struct EventSize {
    bytes: usize,
    /// The line at hand has bytes already.
    in_line: bool,
}

impl EventSize {
    fn add(&mut self, chunk: &[u8]) {
        for line in chunk.split_inclusive(|&byte| byte == b'\n') {
            self.bytes += line.len();
            let blank = line.trim_ascii().is_empty();
            let ended = line.ends_with(b"\n");
            if !self.in_line && blank && ended {
                self.bytes = 0;
            }
            self.in_line = !ended && (self.in_line || !blank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_an_event_starts_again_after_an_empty_line() {
        let mut size = EventSize::default();
        let counted: Vec<usize> = [
            &b"data: 1\r\n"[..],
            b"\r\n",
            b"da",
            b"ta: 2\n\ndata",
            b": 3",
        ]
        .into_iter()
        .map(|chunk| {
            size.add(chunk);
            size.bytes
        })
        .collect();
        assert_eq!(counted, [9, 0, 2, 4, 7]);
    }
}
