//! Brings a server up: finds its program, starts it, and agrees on a protocol, within its own time limit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Failure, OnChange, RequestContext};
use super::handshake::{self, HandshakeError, Peer, Questions};
use super::http::oauth::Tokens;
use super::server::Server;
use super::stdio::{Process, Program, shortened};
use super::{Error, environment, http, lock, program};
use bridge_catalog::Transport;

/// A server that answers.
pub(super) struct RunningServer {
    pub(super) connection: Arc<Connection>,
    pub(super) peer: Peer,
    pub(super) since: Instant,
    link: Link,
}

/// What carries the connection.
pub(super) enum Link {
    Process(Process),
    Http(http::Link),
}

impl RunningServer {
    /// Ends it in an orderly way.
    pub(super) async fn stop(&self) {
        match &self.link {
            Link::Process(process) => process.stop().await,
            Link::Http(link) => link.stop().await,
        }
    }
}

/// How far a start has come.
pub(super) struct Phase {
    pub(super) started: Instant,
    at: Mutex<&'static str>,
    process: Mutex<Option<Process>>,
}

impl Default for Phase {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            at: Mutex::new("starting its program"),
            process: Mutex::default(),
        }
    }
}

impl Phase {
    /// What it is at.
    pub(super) fn get(&self) -> &'static str {
        *lock(&self.at)
    }

    /// What the program has written to stderr meanwhile, such as the progress of a download.
    pub(super) fn last_words(&self) -> String {
        lock(&self.process)
            .as_ref()
            .map(|process| shortened(&process.last_words()))
            .unwrap_or_default()
    }

    fn set(&self, at: &'static str) {
        *lock(&self.at) = at;
    }
}

/// Starts `server` and tells it what the client `offers`. Dropping the future ends what was started.
pub(super) async fn start(
    server: &Arc<Server>,
    phase: &Phase,
    offers: &Value,
) -> Result<Arc<RunningServer>, Error> {
    match &server.definition.transport {
        Transport::Stdio { .. } => start_process(server, phase, offers).await,
        Transport::Http { url, headers } => connect(server, url, headers, phase, offers).await,
    }
}

async fn start_process(
    server: &Arc<Server>,
    phase: &Phase,
    offers: &Value,
) -> Result<Arc<RunningServer>, Error> {
    let definition = &server.definition;
    let Transport::Stdio {
        command,
        args,
        env,
        cwd,
    } = &definition.transport
    else {
        return Err(failed(server, "it is no program"));
    };
    let options = &server.shared.options;
    let environment = environment::of_server(&options.environment, env);
    let cwd = cwd.clone().unwrap_or_else(|| options.cwd.clone());
    let toml = definition
        .source
        .path
        .extension()
        .is_some_and(|extension| extension == "toml");
    let path = program::find(command, &environment, &cwd, toml)
        .map_err(|missing| failed(server, &missing.to_string()))?;
    let program = Program {
        server: definition.name.clone(),
        path: path.clone(),
        arguments: args.clone(),
        environment,
        cwd,
        redactor: server.redactor.clone(),
        guardian: server.shared.options.guardian.clone(),
        result_bytes: options.result_bytes,
        large: Arc::clone(&server.shared.large),
    };
    tracing::info!(server.name = %definition.name, "starting server");
    let process = Process::start(program, on_change(server)).map_err(|error| {
        failed(
            server,
            &format!("{} cannot be started: {error}", path.display()),
        )
    })?;
    *lock(&phase.process) = Some(process.clone());
    phase.set("waiting for its answer to initialize");

    let limit = definition
        .start_timeout
        .unwrap_or_else(|| patience(command, args, options));
    // Ends the process when the start is given up, which is when the bridge shuts down.
    let guard = process.stop_guard();
    let hands = handshake::shake_hands(&process.connection, Questions::Both, offers);
    let peer = match timeout(limit, hands).await {
        Ok(Ok(peer)) => peer,
        Ok(Err(refusal)) => {
            let reason = match refusal {
                HandshakeError::Failure(Failure::Closed { .. }) => ended(&process).await,
                HandshakeError::Failure(failure) => format!("{failure:?}"),
                HandshakeError::Answer(answer) => with_words(&answer, &process),
            };
            process.stop().await;
            return Err(failed(server, &reason));
        }
        Err(_) => {
            let reason = with_words(
                &format!("no answer to initialize within {} s", limit.as_secs()),
                &process,
            );
            process.stop().await;
            return Err(failed(server, &reason));
        }
    };
    guard.disarm();
    *lock(&phase.process) = None;
    listen(&process.connection, &peer);
    tracing::info!(server.name = %definition.name, protocol = %peer.protocol, "server is up");
    let connection = Arc::clone(&process.connection);
    Ok(Arc::new(RunningServer {
        connection,
        peer,
        since: Instant::now(),
        link: Link::Process(process),
    }))
}

/// Connects to an endpoint: each of the two questions on a connection of its own, as rmcp's transport wants it.
async fn connect(
    server: &Arc<Server>,
    url: &str,
    headers: &BTreeMap<String, SecretString>,
    phase: &Phase,
    offers: &Value,
) -> Result<Arc<RunningServer>, Error> {
    let definition = &server.definition;
    let options = &server.shared.options;
    let limit = definition.start_timeout.unwrap_or(options.start_timeout);
    phase.set("connecting");
    let mut answers = Vec::new();
    for questions in [Questions::Initialize, Questions::Discover] {
        let tokens = options
            .tokens
            .as_ref()
            .map(|folder| Tokens::of(folder, url))
            .filter(Tokens::exist);
        let endpoint = http::Endpoint {
            server: &definition.name,
            url,
            headers,
            tokens,
            result_bytes: options.result_bytes,
            large: Arc::clone(&server.shared.large),
            parallel: options.parallel,
        };
        let attempt = async {
            let link = http::Link::open(endpoint, on_change(server))
                .await
                .map_err(HandshakeError::Answer)?;
            let guard = link.stop_guard();
            let peer = handshake::shake_hands(&link.connection, questions, offers).await?;
            guard.disarm();
            Ok((link, peer))
        };
        match timeout(limit, attempt).await {
            Ok(Ok((link, peer))) => {
                listen(&link.connection, &peer);
                tracing::info!(server.name = %definition.name, protocol = %peer.protocol, "server is connected");
                let connection = Arc::clone(&link.connection);
                return Ok(Arc::new(RunningServer {
                    connection,
                    peer,
                    since: Instant::now(),
                    link: Link::Http(link),
                }));
            }
            Ok(Err(HandshakeError::Failure(Failure::Unauthorized(reason)))) => {
                return Err(server.unauthorized(reason));
            }
            Ok(Err(refusal @ HandshakeError::Failure(Failure::Transport { seen: false, .. }))) => {
                return Err(failed(server, &handshake::describe(&refusal)));
            }
            Ok(Err(refusal)) => answers.push(handshake::describe(&refusal)),
            Err(_) => answers.push(format!("nothing within {} s", limit.as_secs())),
        }
    }
    if http::is_legacy_sse(url, headers).await {
        let reason = "it speaks the HTTP+SSE transport of 2024, which is not supported; newer versions of such servers \
                      offer streamable HTTP, mostly at an address that ends in /mcp";
        return Err(failed(server, reason));
    }
    let reason = format!(
        "it answered initialize with {}, and server/discover with {}",
        answers[0], answers[1]
    );
    Err(failed(server, &reason))
}

/// How it ended: the connection may be seen to be closed a moment before that is known.
async fn ended(process: &Process) -> String {
    process.stop().await;
    process
        .connection
        .closed()
        .unwrap_or_else(|| "it ended".to_owned())
}

fn with_words(what: &str, process: &Process) -> String {
    let words = process.last_words();
    let non_protocol = process.connection.non_protocol.count();
    let mut text = what.to_owned();
    if non_protocol > 0 {
        let last = process.connection.non_protocol.last();
        let _ = write!(
            text,
            "; it wrote {non_protocol} lines that are no MCP messages, such as {last:?}"
        );
    }
    if !words.is_empty() {
        text.push_str("; stderr: ");
        text.push_str(&shortened(&words));
    }
    text
}

fn failed(server: &Server, reason: &str) -> Error {
    Error::Start {
        server: server.name().clone(),
        reason: server.redactor.text(reason).into_owned(),
    }
}

fn on_change(server: &Arc<Server>) -> OnChange {
    let server = Arc::downgrade(server);
    Box::new(move |method| {
        if let Some(server) = server.upgrade() {
            server.changed(method);
        }
    })
}

/// Revisions without `initialize` tell of changes only to those who listen.
fn listen(connection: &Arc<Connection>, peer: &Peer) {
    if !peer.modern || !peer.tells_of_changed_tools() {
        return;
    }
    let connection = Arc::clone(connection);
    tokio::spawn(async move {
        let mut params = serde_json::Map::new();
        params.insert(
            "notifications".to_owned(),
            serde_json::json!({"toolsListChanged": true}),
        );
        let never = CancellationToken::new();
        // The answer comes when the subscription ends.
        let ended = connection
            .request("subscriptions/listen", params, RequestContext::of(&never))
            .await;
        tracing::debug!(?ended, "subscription to changes ended");
    });
}

/// Commands that may download what they start are given more time; nobody is blocked by that but who waits for them.
fn patience(command: &str, args: &[String], options: &super::Options) -> Duration {
    let name = command.rsplit('/').next().unwrap_or(command);
    let first = args
        .iter()
        .find(|argument| !argument.starts_with('-'))
        .map_or("", String::as_str);
    let downloads = match name {
        "npx" | "uvx" | "bunx" | "pnpx" | "deno" | "nix" => true,
        "npm" | "pnpm" | "yarn" | "bun" => matches!(first, "exec" | "dlx" | "x"),
        "uv" | "pipx" | "docker" | "podman" => matches!(first, "run" | "tool"),
        _ => false,
    };
    if downloads {
        options.download_timeout
    } else {
        options.start_timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_download_get_more_time() {
        let options = super::super::Options::default();
        let patience = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let command = words.next().unwrap();
            patience(&command, &words.collect::<Vec<_>>(), &options) == options.download_timeout
        };
        for line in [
            "npx -y x",
            "/usr/bin/uvx x",
            "docker run -i x",
            "uv tool run x",
            "pnpm dlx x",
            "nix run nixpkgs#x",
        ] {
            assert!(patience(line), "{line}");
        }
        for line in [
            "python3 server.py",
            "node x.js",
            "docker exec -i x y",
            "npm start",
            "uv --version",
        ] {
            assert!(!patience(line), "{line}");
        }
    }
}
