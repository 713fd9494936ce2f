//! `serve`: serves MCP to one client on standard input and output, or to several over HTTP.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::bridge::Bridge;
use super::{block_on, exit, signals, telemetry, terminal};
use bridge_server::{CallDefaults, Clients, HTTP_PATH, Server, Token, TokenError, serve_http};
use bridge_settings::Settings;

/// Serves MCP on standard input and output, or over HTTP if an address is given.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Serve over HTTP at a loopback address such as 127.0.0.1:8722 (port 0: any free port).
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// File with the bearer token that clients must send; without it, a token is made and printed.
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<PathBuf>,
}

impl Serve {
    /// These flags as settings.
    pub(super) fn overrides(&self) -> Vec<(String, String, OsString)> {
        let given =
            |flag: &str, key: &str, value: OsString| (flag.to_owned(), key.to_owned(), value);
        let http = self.http.as_ref();
        let file = self.http_token_file.as_ref();
        let http = http.map(|value| given("--http", "http", value.into()));
        let file = file.map(|value| given("--http-token-file", "http_token_file", value.into()));
        http.into_iter().chain(file).collect()
    }
}

/// Serves over HTTP if the settings name an address, else on standard input and output.
pub(super) fn serve(settings: Settings) -> ExitCode {
    match settings.http {
        Some(address) => over_http(&settings, address),
        None => on_stdio(settings),
    }
}

/// Serves until the client closes the connection (exit code 0) or a signal arrives (128 plus its
/// number).
#[expect(
    clippy::needless_pass_by_value,
    reason = "lives as long as the program"
)]
pub(super) fn on_stdio(settings: Settings) -> ExitCode {
    telemetry::start(&settings.host, settings.log_level);
    if std::io::stdin().is_terminal() {
        terminal::say(
            "waiting for an MCP client on standard input; to run code, see `mcp-code-bridge run --help`",
        );
    }
    until_signal(async |closing| {
        let bridge = Bridge::new(&settings);
        let server = Server::new(
            bridge.sessions.clone(),
            CallDefaults::new(&settings),
            closing,
        );
        let (reader, writer) = rmcp::transport::stdio_pipes();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            "serving on standard input and output"
        );
        server.serve_streams(reader, writer).await;
        bridge.close().await;
        ExitCode::SUCCESS
    })
}

/// Serves until a signal arrives (exit code 128 plus its number).
fn over_http(settings: &Settings, address: SocketAddr) -> ExitCode {
    telemetry::start(&settings.host, settings.log_level);
    let token = match token(settings) {
        Ok(token) => token,
        Err(error) => {
            terminal::say(&error.to_string());
            return exit::USAGE.into();
        }
    };
    until_signal(async |closing| {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            std::io::Result::Ok((listener, address))
        };
        let (listener, address) = match bound.await {
            Ok(bound) => bound,
            Err(error) => {
                terminal::say(&format!("cannot listen on {address}: {error}"));
                return exit::FAILED.into();
            }
        };
        terminal::say(&format!("serving on http://{address}{HTTP_PATH}"));
        let bridge = Bridge::new(settings);
        let more = bridge.more_sessions(settings);
        let clients = Clients::new(Arc::clone(&bridge.sessions), more);
        let session = &settings.session;
        let idle = (!session.idle.is_zero()).then(|| session.idle.max(session.max_run));
        let defaults = CallDefaults::new(settings);
        serve_http(
            listener,
            token,
            Arc::clone(&clients),
            defaults,
            idle,
            closing,
        )
        .await;
        clients.close().await;
        bridge.close().await;
        ExitCode::SUCCESS
    })
}

/// Reads the token from its file, or makes one and prints it.
fn token(settings: &Settings) -> Result<Token, TokenError> {
    if let Some(file) = &settings.http_token_file {
        return Token::read(file);
    }
    let (token, text) = Token::random()?;
    terminal::say(&format!("token: {text}"));
    Ok(token)
}

/// Runs `work`, and tells it to close when a signal arrives.
fn until_signal(work: impl AsyncFnOnce(CancellationToken) -> ExitCode) -> ExitCode {
    block_on(async {
        let closing = CancellationToken::new();
        let received = match signals::cancel_on_signal(closing.clone()) {
            Ok(received) => received,
            Err(error) => {
                terminal::say(&format!("cannot listen for signals: {error}"));
                return exit::FAILED.into();
            }
        };
        let code = work(closing).await;
        received.exit_code().map_or(code, ExitCode::from)
    })
    .unwrap_or_else(|code| code)
}
