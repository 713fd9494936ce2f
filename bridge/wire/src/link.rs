//! Both directions of one attached guest: frames go out in as few writes as there can be, lines
//! come in one by one.
//!
//! All waiting here may be dropped at any point and taken up again: no byte is lost or sent twice.

use std::io;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{Error, FRAME_LIMIT, Frame, LineDecoder, TO_GUEST_LIMIT, ToGuest, trace};

/// How much of the container's own standard error is remembered.
const TAIL: usize = 8 << 10;

/// What has been sent is dropped from the buffer when it is this much, also where there is always
/// more to send.
const SENT: usize = 1 << 20;

/// The two ends of an attached guest, whatever runs it.
pub struct Ends {
    /// The guest's standard input.
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
    /// The guest's standard output and standard error, until both are closed or the connection is
    /// lost.
    pub output: BoxStream<'static, Result<Output, ConnectionLost>>,
}

/// A piece of what a guest writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A part of the stream of frames.
    Stdout(Bytes),
    /// What the container's runtime or the interpreter itself complains about.
    Stderr(Bytes),
}

/// Why the connection to a guest broke, in the words of whatever runs the guest.
pub type ConnectionLost = Box<dyn std::error::Error + Send + Sync>;

/// Both directions of one guest.
pub struct Link {
    /// Frames that go to the guest.
    pub sender: Sender,
    /// Lines that come from the guest.
    pub receiver: Receiver,
}

impl Link {
    /// Takes over the ends of an attached guest.
    pub fn new(ends: Ends) -> Self {
        Self {
            sender: Sender {
                input: ends.input,
                buffer: Vec::new(),
                written: 0,
                flushed: true,
            },
            receiver: Receiver {
                output: ends.output,
                decoder: LineDecoder::new(FRAME_LIMIT),
                tail: Vec::new(),
                received: 0,
            },
        }
    }
}

/// Frames to the guest.
pub struct Sender {
    input: Pin<Box<dyn AsyncWrite + Send>>,
    buffer: Vec<u8>,
    written: usize,
    flushed: bool,
}

impl Sender {
    /// Puts a frame behind those that wait.
    pub fn queue(&mut self, frame: &ToGuest<'_>) {
        self.compact();
        let before = self.buffer.len();
        frame.encode(&mut self.buffer);
        trace::frame("to guest", &self.buffer[before..]);
        self.flushed = false;
    }

    /// Puts a frame of any size behind those that wait. A frame beyond [`TO_GUEST_LIMIT`] is not
    /// taken; the error is its size in bytes.
    pub fn queue_bounded(&mut self, frame: &impl Frame) -> Result<(), usize> {
        self.compact();
        let before = self.buffer.len();
        // Writing JSON to memory cannot fail; if it did, nothing would be sent.
        let written = serde_json::to_writer(&mut self.buffer, frame);
        let size = self.buffer.len() - before;
        if size > TO_GUEST_LIMIT || written.is_err() {
            self.buffer.truncate(before);
            self.buffer.shrink_to(before.max(64 << 10));
            return Err(size);
        }
        trace::frame("to guest", &self.buffer[before..]);
        self.buffer.push(b'\n');
        self.flushed = false;
        Ok(())
    }

    fn compact(&mut self) {
        if self.written > SENT {
            self.buffer.drain(..self.written);
            self.written = 0;
        }
    }

    /// Whether something has not gone out yet.
    pub fn is_pending(&self) -> bool {
        !self.flushed
    }

    /// Bytes that the guest has not taken yet.
    pub fn unsent(&self) -> usize {
        self.buffer.len() - self.written
    }

    /// Writes out what waits.
    pub async fn flush(&mut self) -> io::Result<()> {
        while self.written < self.buffer.len() {
            let count = self.input.write(&self.buffer[self.written..]).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += count;
        }
        self.input.flush().await?;
        self.flushed = true;
        self.written = 0;
        self.buffer.clear();
        self.buffer.shrink_to(64 << 10);
        Ok(())
    }
}

/// What came from the guest.
#[derive(Debug)]
pub enum Event {
    /// A line, to be parsed as a frame.
    Line(Bytes),
    /// The guest closed its output.
    Ended,
    /// The connection to the guest broke.
    Lost(ConnectionLost),
    /// The guest broke the protocol.
    Broken(Error),
}

/// Lines from the guest.
pub struct Receiver {
    output: BoxStream<'static, Result<Output, ConnectionLost>>,
    decoder: LineDecoder,
    tail: Vec<u8>,
    received: u64,
}

impl Receiver {
    /// Waits for the next event.
    pub async fn event(&mut self) -> Event {
        loop {
            match self.decoder.line() {
                Ok(Some(line)) => {
                    trace::frame("from guest", &line);
                    return Event::Line(line);
                }
                Ok(None) => {}
                Err(error) => return Event::Broken(error),
            }
            // A guest that floods must not keep this thread from others.
            tokio::task::coop::consume_budget().await;
            match self.output.next().await {
                Some(Ok(Output::Stdout(piece))) => {
                    self.received += piece.len() as u64;
                    self.decoder.push(piece);
                }
                Some(Ok(Output::Stderr(piece))) => {
                    self.received += piece.len() as u64;
                    self.remember(&piece);
                }
                Some(Err(error)) => return Event::Lost(error),
                None => return Event::Ended,
            }
        }
    }

    /// Bytes received so far, of both kinds.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The last words on the container's own standard error: the runtime's or the interpreter's,
    /// not user code's.
    pub fn last_words(&self) -> String {
        String::from_utf8_lossy(&self.tail).trim().to_owned()
    }

    fn remember(&mut self, piece: &[u8]) {
        let piece = &piece[piece.len().saturating_sub(TAIL)..];
        let excess = (self.tail.len() + piece.len()).saturating_sub(TAIL);
        self.tail.drain(..excess);
        self.tail.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RpcResponse;

    #[tokio::test]
    async fn results_of_16_mib_are_taken_and_frames_beyond_the_limit_are_not() {
        let ends = Ends {
            input: Box::pin(tokio::io::sink()),
            output: futures_util::stream::empty().boxed(),
        };
        let mut sender = Link::new(ends).sender;
        let queue = |sender: &mut Sender, bytes: usize| {
            let payload = "x".repeat(bytes);
            sender.queue_bounded(&RpcResponse {
                call: 1,
                result: Ok(&payload),
            })
        };
        assert_eq!(queue(&mut sender, 16 << 20), Ok(()));
        let before = sender.unsent();
        assert!(before > 16 << 20);
        let refused = queue(&mut sender, TO_GUEST_LIMIT).unwrap_err();
        assert!(refused > TO_GUEST_LIMIT);
        assert_eq!(sender.unsent(), before);
        sender.flush().await.unwrap();
        assert_eq!(sender.unsent(), 0);
    }
}
