//! The stub server on its standard streams.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use crate::server::Server;

pub(crate) async fn serve(server: Arc<Server>) -> anyhow::Result<()> {
    if server.scenario.stubborn {
        let mut signals =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::spawn(async move { while signals.recv().await.is_some() {} });
    }
    let (output, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
    let closing = Arc::clone(&server);
    let writer = tokio::spawn(async move {
        let mut stdout = tokio::io::stdout();
        loop {
            let bytes = tokio::select! {
                biased;
                bytes = queue.recv() => bytes,
                () = closing.output_closed.notified() => {
                    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
                    rustix::stdio::dup2_stdout(nowhere)?;
                    continue;
                }
            };
            let Some(bytes) = bytes else {
                return anyhow::Ok(());
            };
            stdout.write_all(&bytes).await?;
            stdout.flush().await?;
        }
    });
    server.greet(&output).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let message = serde_json::from_str(&line)?;
        server.record(&message)?;
        tokio::spawn(Arc::clone(&server).handle(message, output.clone()));
    }
    if server.scenario.stubborn {
        std::future::pending::<()>().await;
    }
    drop(output);
    // Unfinished work ends with the process.
    let _ = tokio::time::timeout(std::time::Duration::from_millis(100), writer).await;
    Ok(())
}
