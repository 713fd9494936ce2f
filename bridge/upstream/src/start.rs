//! Brings a server up: finds its program or opens its endpoint, and agrees on a protocol, within
//! the server's own time limit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bridge_catalog::{Definition, ServerName, Transport};
use bridge_common::Mutex;
use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, OnChange, RequestContext};
use super::failure::Failure;
use super::handshake::{self, HandshakeError, Peer, Questions};
use super::oauth::Tokens;
use super::transport::http::{self, with_root_cause};
use super::transport::stdio::{Process, Program, shortened};
use super::{Error, Options, Redactor, environment, program};

/// What to start, and for whom.
pub(super) struct StartSpec<'a> {
    pub(super) definition: &'a Definition,
    pub(super) options: &'a Options,
    pub(super) redactor: &'a Redactor,
    /// Room for large answers, shared by all servers.
    pub(super) large: &'a Arc<Semaphore>,
    /// Capabilities of the client behind the first call.
    pub(super) offers: &'a Value,
    pub(super) on_change: OnChange,
    /// How far the start has come, for those who wait for it.
    pub(super) phase: &'a Phase,
}

/// A server that answers.
pub(super) struct RunningServer {
    pub(super) connection: Arc<Connection>,
    pub(super) peer: Peer,
    pub(super) since: Instant,
    link: Link,
}

/// What carries the connection.
enum Link {
    Process(Process),
    Http(http::Link),
}

impl RunningServer {
    fn new(connection: &Arc<Connection>, peer: Peer, link: Link) -> Arc<Self> {
        listen(connection, &peer);
        Arc::new(Self {
            connection: Arc::clone(connection),
            peer,
            since: Instant::now(),
            link,
        })
    }

    /// Ends the server in an orderly way. Returns when it is gone.
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
    step: Mutex<&'static str>,
    process: Mutex<Option<Process>>,
}

impl Default for Phase {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            step: Mutex::new("starting its program"),
            process: Mutex::default(),
        }
    }
}

impl Phase {
    /// The step that takes its time.
    pub(super) fn get(&self) -> &'static str {
        *self.step.lock()
    }

    /// What the program has written to stderr meanwhile, such as the progress of a download.
    pub(super) fn last_words(&self) -> String {
        self.process
            .lock()
            .as_ref()
            .map(|process| shortened(&process.last_words()))
            .unwrap_or_default()
    }

    fn set(&self, step: &'static str) {
        *self.step.lock() = step;
    }
}

/// Starts a server. Dropping the future ends what was started.
pub(super) async fn start(spec: &StartSpec<'_>) -> Result<Arc<RunningServer>, Error> {
    match &spec.definition.transport {
        Transport::Stdio {
            command,
            args,
            env,
            cwd,
        } => {
            let command = Command {
                name: command,
                args,
                env,
                cwd: cwd.as_ref().unwrap_or(&spec.options.cwd),
            };
            start_process(spec, &command).await
        }
        Transport::Http { url, headers } => connect(spec, url, headers).await,
    }
}

/// The program of a definition.
struct Command<'a> {
    name: &'a str,
    args: &'a [String],
    env: &'a BTreeMap<String, SecretString>,
    cwd: &'a std::path::Path,
}

async fn start_process(
    spec: &StartSpec<'_>,
    command: &Command<'_>,
) -> Result<Arc<RunningServer>, Error> {
    let (definition, options) = (spec.definition, spec.options);
    let environment = environment::of_server(&options.environment, command.env);
    let toml = definition
        .source
        .path
        .extension()
        .is_some_and(|extension| extension == "toml");
    let path = program::find(command.name, &environment, command.cwd, toml)
        .map_err(|missing| spec.failed(&missing.to_string()))?;
    let program = Program {
        server: definition.name.clone(),
        path: path.clone(),
        arguments: command.args.to_vec(),
        environment,
        cwd: command.cwd.to_owned(),
        redactor: spec.redactor.clone(),
        guardian: options.guardian.clone(),
        result_bytes: options.result_bytes,
        large: Arc::clone(spec.large),
    };
    tracing::info!(server.name = %definition.name, "starting server");
    let process = Process::start(program, Arc::clone(&spec.on_change))
        .map_err(|error| spec.failed(&format!("{} cannot be started: {error}", path.display())))?;
    *spec.phase.process.lock() = Some(process.clone());
    spec.phase.set("waiting for its answer to initialize");

    let limit = definition
        .start_timeout
        .unwrap_or_else(|| start_limit(command.name, command.args, options));
    // Ends the process when the start is given up, which is when the bridge shuts down.
    let guard = process.stop_guard();
    let hands = handshake::shake_hands(&process.connection, Questions::Both, spec.offers);
    let peer = match timeout(limit, hands).await {
        Ok(Ok(peer)) => peer,
        Ok(Err(error)) => {
            let reason = match error {
                HandshakeError::Failure(Failure::Closed { .. }) => how_it_ended(&process).await,
                error => with_words(&handshake::describe(&error), &process),
            };
            process.stop().await;
            return Err(spec.failed(&reason));
        }
        Err(_) => {
            let silence = format!("no answer to initialize within {} s", limit.as_secs());
            let reason = with_words(&silence, &process);
            process.stop().await;
            return Err(spec.failed(&reason));
        }
    };
    guard.disarm();
    *spec.phase.process.lock() = None;
    tracing::info!(server.name = %definition.name, protocol = %peer.protocol, "server is up");
    let connection = Arc::clone(&process.connection);
    Ok(RunningServer::new(
        &connection,
        peer,
        Link::Process(process),
    ))
}

/// Connects to an endpoint. Each of the two questions goes over a link of its own, so that a late
/// answer to the first cannot mix with the second.
async fn connect(
    spec: &StartSpec<'_>,
    url: &str,
    headers: &BTreeMap<String, SecretString>,
) -> Result<Arc<RunningServer>, Error> {
    let (definition, options) = (spec.definition, spec.options);
    let limit = definition.start_timeout.unwrap_or(options.start_timeout);
    spec.phase.set("connecting");
    let mut answers = Vec::new();
    for questions in [Questions::Initialize, Questions::Discover] {
        let endpoint = http::Endpoint {
            server: &definition.name,
            url,
            headers,
            tokens: options
                .tokens
                .as_ref()
                .map(|folder| Tokens::of(folder, url)),
            result_bytes: options.result_bytes,
            large: Arc::clone(spec.large),
        };
        let link = http::Link::open(endpoint, Arc::clone(&spec.on_change))
            .await
            .map_err(|error| spec.failed(&with_root_cause(&error)))?;
        let guard = link.stop_guard();
        let hands = handshake::shake_hands(&link.connection, questions, spec.offers);
        match timeout(limit, hands).await {
            Ok(Ok(peer)) => {
                guard.disarm();
                tracing::info!(server.name = %definition.name, protocol = %peer.protocol, "server is connected");
                let connection = Arc::clone(&link.connection);
                return Ok(RunningServer::new(&connection, peer, Link::Http(link)));
            }
            Ok(Err(HandshakeError::Failure(Failure::Unauthorized(denial)))) => {
                let server = definition.name.clone();
                return Err(Error::Unauthorized { server, denial });
            }
            Ok(Err(HandshakeError::Failure(Failure::Transport(error))))
                if !error.may_have_been_seen() =>
            {
                return Err(spec.failed(&with_root_cause(&error)));
            }
            Ok(Err(error)) => answers.push(handshake::describe(&error)),
            Err(_) => answers.push(format!("nothing within {} s", limit.as_secs())),
        }
    }
    if http::is_legacy_sse(url, headers).await {
        let reason = "it speaks the HTTP+SSE transport of 2024, which is not supported; newer versions of such servers \
                      offer streamable HTTP, mostly at an address that ends in /mcp";
        return Err(spec.failed(reason));
    }
    Err(spec.failed(&format!(
        "it answered initialize with {}, and server/discover with {}",
        answers[0], answers[1]
    )))
}

/// How a process ended: the connection may be seen to be closed a moment before that is known.
async fn how_it_ended(process: &Process) -> String {
    process.stop().await;
    process
        .connection
        .closed()
        .unwrap_or_else(|| "it ended".to_owned())
}

fn with_words(what: &str, process: &Process) -> String {
    let mut text = what.to_owned();
    if let Some(output) = process.connection.non_protocol.describe() {
        let _ = write!(text, "; {output}");
    }
    let words = process.last_words();
    if !words.is_empty() {
        let _ = write!(text, "; stderr: {}", shortened(&words));
    }
    text
}

impl StartSpec<'_> {
    fn failed(&self, reason: &str) -> Error {
        Error::Start {
            server: self.name().clone(),
            reason: self.redactor.text(reason).into_owned(),
        }
    }

    fn name(&self) -> &ServerName {
        &self.definition.name
    }
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

/// Commands that may download what they start are given more time; only those who wait for them
/// are held up by that.
fn start_limit(command: &str, args: &[String], options: &Options) -> Duration {
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
        let options = Options::default();
        let has_more_time = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let command = words.next().unwrap();
            start_limit(&command, &words.collect::<Vec<_>>(), &options) == options.download_timeout
        };
        for line in [
            "npx -y x",
            "/usr/bin/uvx x",
            "docker run -i x",
            "uv tool run x",
            "pnpm dlx x",
            "nix run nixpkgs#x",
        ] {
            assert!(has_more_time(line), "{line}");
        }
        for line in [
            "python3 server.py",
            "node x.js",
            "docker exec -i x y",
            "npm start",
            "uv --version",
        ] {
            assert!(!has_more_time(line), "{line}");
        }
    }
}
