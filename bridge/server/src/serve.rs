//! Serves one connection from its first line to its end.

use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::Server;
use super::passthrough::QuestionPassthrough;
use super::transport::LineTransport;

/// How long cancelled runs have to be answered, and the client to read the answers.
const DRAIN: Duration = Duration::from_millis(500);

impl Server {
    /// Serves one client over a pair of streams until either ends or the server is told to close.
    /// Runs that are still going on are then cancelled. Returns within [`DRAIN`] of that, whatever
    /// the client and the runs do.
    pub async fn serve_streams<R, W>(self, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let closing = self.closing.clone();
        let stop = CancellationToken::new();
        let transport = LineTransport::new(reader, writer, closing.clone());
        let connection = async {
            match QuestionPassthrough(self)
                .serve_with_ct(transport, stop.clone())
                .await
            {
                Ok(running) => match running.waiting().await {
                    Ok(reason) => tracing::debug!(?reason, "connection ended"),
                    Err(error) => tracing::error!(%error, "connection failed"),
                },
                Err(
                    ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled,
                ) => {
                    tracing::debug!("connection ended before a session began");
                }
                Err(error) => tracing::error!(%error, "connection failed"),
            }
        };
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            () = &mut connection => {}
            () = closing.cancelled() => {
                stop.cancel();
                if tokio::time::timeout(DRAIN, &mut connection).await.is_err() {
                    tracing::debug!("connection dropped: the client does not read its last answers");
                }
            }
        }
        closing.cancel();
    }
}
