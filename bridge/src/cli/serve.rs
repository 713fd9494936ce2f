//! No command: one MCP client on standard input and output.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use super::bridge::Bridge;
use super::{block_on, exit, signals, telemetry, terminal};
use crate::server::{Face, Server};
use crate::settings::Settings;

/// Serves until the client closes the connection (exit 0) or a signal comes (128 and its number).
#[expect(
    clippy::needless_pass_by_value,
    reason = "lives as long as the program"
)]
pub(super) fn serve(settings: Settings) -> ExitCode {
    telemetry::start(settings.log_level);
    if std::io::stdin().is_terminal() {
        terminal::say(
            "waiting for an MCP client on standard input; to run code, see: mcp-code-bridge run --help",
        );
    }
    block_on(async {
        let closing = CancellationToken::new();
        let received = match signals::cancel_on_signal(closing.clone()) {
            Ok(received) => received,
            Err(error) => {
                terminal::say(&format!("cannot listen for signals: {error}"));
                return exit::FAILED.into();
            }
        };
        let bridge = Bridge::new(&settings);
        let server = Server::new(bridge.sessions.clone(), Face::new(&settings), closing);
        let (reader, writer) = rmcp::transport::stdio_pipes();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            "serving on standard input and output"
        );
        server.serve_streams(reader, writer).await;
        bridge.close().await;
        received
            .exit_code()
            .map_or(ExitCode::SUCCESS, ExitCode::from)
    })
    .unwrap_or_else(|code| code)
}
