//! JSON-RPC over a pair of byte streams, one message per line.
//!
//! Unlike rmcp's own transport, this one answers lines that are not valid messages: with an error
//! that carries the request's id wherever it can be made out, because a caller without an answer
//! waits for ever.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetMeta, ProtocolVersion, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::line::{Envelope, Line, Lines, MAX_LINE, lone_surrogate, request_id};
use super::tickets::TicketQueue;

/// The most errors without an id that one connection is sent: two programs that complain about each
/// other's complaints must stop.
const MAX_COMPLAINTS: usize = 64;
/// The most requests of one batch that are answered one by one.
const MAX_BATCH: usize = 256;

type Sending = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A transport over a pair of byte streams such as stdio.
pub(super) struct LineTransport<R, W> {
    lines: Lines<R>,
    writer: Arc<Mutex<W>>,
    /// Fires when either stream has ended.
    closing: CancellationToken,
    /// Errors to be sent, and the one being sent: `receive` may be dropped at any await.
    unsent: VecDeque<ServerJsonRpcMessage>,
    sending: Option<Sending>,
    complaints: usize,
    /// Whether a request that begins a session has been passed on.
    opened: bool,
    tickets: TicketQueue,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Makes a transport that fires `closing` when either stream ends.
    pub(super) fn new(reader: R, writer: W, closing: CancellationToken) -> Self {
        Self {
            lines: Lines::new(reader),
            writer: Arc::new(Mutex::new(writer)),
            closing,
            unsent: VecDeque::new(),
            sending: None,
            complaints: 0,
            opened: false,
            tickets: TicketQueue::default(),
        }
    }

    /// The message in a line, if it is one; errors to answer other lines with go to `unsent`.
    fn parse(&mut self, line: &Line) -> Option<ClientJsonRpcMessage> {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong {
                summary: envelope, ..
            } => {
                let message = format!(
                    "message is longer than {} MiB; send less in one message",
                    MAX_LINE >> 20
                );
                self.refuse(envelope, ErrorCode::INVALID_REQUEST, message);
                return None;
            }
        };
        match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => self.admit(message),
            Err(error) => {
                self.refuse_line(line, &error);
                None
            }
        }
    }

    /// Skips answers and notifications before the session has begun: rmcp would end the connection,
    /// although a client that is still probing may send them.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        if self.opened {
            return Some(message);
        }
        let ClientJsonRpcMessage::Request(request) = &message else {
            tracing::debug!("skipped a message before the session began");
            return None;
        };
        match &request.request {
            ClientRequest::CustomRequest(custom) if custom.method == "initialize" => {
                let text = "initialize needs protocolVersion, capabilities and clientInfo";
                let error = ErrorData::invalid_params(text, None);
                self.unsent
                    .push_back(ServerJsonRpcMessage::error(error, Some(request.id.clone())));
                return None;
            }
            // Answered without a session.
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => {}
            ClientRequest::InitializeRequest(_) => self.opened = true,
            other => self.opened = begins_session(other),
        }
        Some(message)
    }

    fn refuse_line(&mut self, line: &[u8], error: &serde_json::Error) {
        let envelope = Envelope::of(line);
        if envelope.is_batch {
            self.refuse_batch(line);
            return;
        }
        let (code, message) = if std::str::from_utf8(line).is_err() {
            (ErrorCode::PARSE_ERROR, "message is not UTF-8".to_owned())
        } else if let Some(found) = lone_surrogate(line) {
            (ErrorCode::INVALID_PARAMS, format!("message holds {found}"))
        } else if error.is_data() {
            (
                ErrorCode::INVALID_REQUEST,
                "not a JSON-RPC 2.0 request".to_owned(),
            )
        } else {
            (ErrorCode::PARSE_ERROR, format!("not JSON: {error}"))
        };
        self.refuse(&envelope, code, message);
    }

    /// Answers every request of a batch with an error: the protocol no longer has batches.
    fn refuse_batch(&mut self, line: &[u8]) {
        let code = ErrorCode::INVALID_REQUEST;
        let message = "batches are not supported; send one message per line";
        let items: Vec<serde_json::Value> = serde_json::from_slice(line).unwrap_or_default();
        let is_request = |item: &&serde_json::Value| item.get("method").is_some();
        let ids = items
            .iter()
            .filter(is_request)
            .filter_map(|item| item.get("id"));
        let ids: Vec<RequestId> = ids
            .filter_map(|id| serde_json::from_value(id.clone()).ok())
            .take(MAX_BATCH)
            .collect();
        if ids.is_empty() {
            let envelope = Envelope {
                is_batch: true,
                ..Envelope::default()
            };
            self.complain(&envelope, code, message.to_owned());
        }
        for id in ids {
            let error = ErrorData::new(code, message, None);
            self.unsent
                .push_back(ServerJsonRpcMessage::error(error, Some(id)));
        }
    }

    fn refuse(&mut self, envelope: &Envelope, code: ErrorCode, message: String) {
        match request_id(envelope) {
            // An answer is never answered, or two programs would talk for ever.
            _ if envelope.has_answer && !envelope.has_method => {
                tracing::debug!(message, "skipped a malformed answer");
            }
            Some(id) => {
                let error = ErrorData::new(code, message, None);
                self.unsent
                    .push_back(ServerJsonRpcMessage::error(error, Some(id)));
            }
            None => self.complain(envelope, code, message),
        }
    }

    /// Sends an error without an id, which answers a line that cannot be told to be a request.
    fn complain(&mut self, envelope: &Envelope, code: ErrorCode, message: String) {
        // A message with a method and no id is a notification, unless it could not be read at all.
        let is_notification = envelope.has_method
            && !envelope.has_id
            && !envelope.is_batch
            && code == ErrorCode::INVALID_REQUEST;
        if is_notification {
            tracing::debug!(message, "skipped a malformed notification");
            return;
        }
        self.complaints += 1;
        if self.complaints > MAX_COMPLAINTS {
            tracing::debug!(message, "skipped a line that is not a message");
            return;
        }
        tracing::warn!(message, "received a line that is not a message");
        self.unsent.push_back(ServerJsonRpcMessage::error(
            ErrorData::new(code, message, None),
            None,
        ));
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        write(Arc::clone(&self.writer), message, self.closing.clone())
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // One after the other: a client that sends invalid lines and does not read its errors
            // is not read from either.
            while self.sending.is_some() || !self.unsent.is_empty() {
                if let Some(sending) = &mut self.sending {
                    // A failure fires `closing`, which ends the connection.
                    let _ = sending.as_mut().await;
                    self.sending = None;
                } else if let Some(message) = self.unsent.pop_front() {
                    let writer = Arc::clone(&self.writer);
                    self.sending = Some(Box::pin(write(writer, message, self.closing.clone())));
                }
            }
            match self.lines.next().await {
                Ok(Some(line)) => {
                    if let Some(mut message) = self.parse(&line) {
                        if let ClientJsonRpcMessage::Request(request) = &mut message
                            && let ClientRequest::CallToolRequest(call) = &mut request.request
                        {
                            call.extensions.insert(self.tickets.issue());
                        }
                        return Some(message);
                    }
                }
                Ok(None) => {
                    self.closing.cancel();
                    return None;
                }
                Err(error) => {
                    tracing::warn!(%error, "standard input cannot be read");
                    self.closing.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a request begins a session without a handshake: in revisions without `initialize`, one
/// with complete metadata does.
fn begins_session(request: &ClientRequest) -> bool {
    let meta = request.get_meta();
    let is_complete = meta
        .missing_required_keys(&ProtocolVersion::V_2026_07_28)
        .is_empty();
    is_complete
        && meta
            .protocol_version()
            .is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
}

/// Writes one message as a line. Fires `closing` when the client is gone.
async fn write<W: AsyncWrite + Send + Unpin>(
    writer: Arc<Mutex<W>>,
    message: ServerJsonRpcMessage,
    closing: CancellationToken,
) -> io::Result<()> {
    let mut line = Pieces::default();
    serde_json::to_writer(&mut line, &message)?;
    drop(message);
    line.write_all(b"\n")?;
    let mut writer = writer.lock().await;
    let written = async {
        for piece in line.0 {
            writer.write_all(&piece).await?;
        }
        writer.flush().await
    };
    let result = written.await;
    if let Err(error) = &result {
        tracing::debug!(%error, "client is gone");
        closing.cancel();
    }
    result
}

/// A line in pieces: one growing vector would briefly need three times the memory of a large
/// answer.
#[derive(Default)]
struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    /// Bytes of one piece.
    const SIZE: usize = 256 << 10;
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.last_mut() {
            Some(piece) if piece.len() + bytes.len() <= Self::SIZE => {
                piece.extend_from_slice(bytes);
            }
            // Most answers are small and fit one piece.
            None => self.0.push(bytes.to_vec()),
            Some(_) => {
                let mut piece = Vec::with_capacity(Self::SIZE.max(bytes.len()));
                piece.extend_from_slice(bytes);
                self.0.push(piece);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
