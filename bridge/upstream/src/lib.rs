//! The MCP servers that code may call, over stdio and streamable HTTP.
//!
//! Owns the life of each server (one long-lived actor for each, started when it is first needed,
//! restarted after it ended, stopped when unused or with the bridge), its OAuth tokens, and the
//! conversation with it in both eras of the protocol.
//!
//! Must never know sessions, guests, engines, or who may call what: `broker` decides that. Results
//! pass as raw JSON; a call is never repeated when it may have taken effect; everything that is
//! waited for has an end: a deadline, a caller who gives up, or the end of the server.
//!
//! Entry points: [`Upstreams`] (all servers), [`Interact`] (the client behind a call),
//! [`oauth::Tokens`] (logins), [`Redactor`] (secrets out of texts). Read `server.rs` for the states
//! of an actor, `connection.rs` for the conversation, `transport.rs` for what carries it.

mod connection;
mod deadline;
mod environment;
mod error;
mod failure;
mod group;
mod handshake;
mod http_client;
mod interact;
mod list;
mod message;
pub mod oauth;
mod payload;
mod program;
mod redact;
mod request;
mod server;
mod start;
mod tail;
mod tool_list;
mod transport;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bridge_common::Mutex;
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, broadcast};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use environment::{INHERITED, INHERITED_PREFIXES};
pub use error::{Denial, Error};
pub use handshake::Peer;
pub use interact::{Event, Interact, NoClient, Question, QuestionKind, Reply};
pub use message::RpcError;
pub use payload::Payload;
pub use program::Missing;
pub use redact::{REDACTED, Redactor};
pub use tool_list::ToolList;

use bridge_catalog::{Definition, ServerName};
use bridge_guardian::Guardian;
use message::Params;
use payload::LARGE_AT_ONCE;
use server::Server;

/// How servers are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The bridge's environment, of which servers inherit a few variables.
    pub environment: BTreeMap<String, String>,
    /// The working directory of servers that do not name one.
    pub cwd: PathBuf,
    /// Time to start, for servers that do not name one.
    pub start_timeout: Duration,
    /// Time to start for commands that may have to download first, such as `npx` and `docker run`.
    pub download_timeout: Duration,
    /// Time without a sign of life after which a call has failed, for servers that do not name one;
    /// with `None` only the caller's deadline counts.
    pub call_timeout: Option<Duration>,
    /// Time after which an unused server is stopped; never with zero.
    pub idle: Duration,
    /// The most calls to one server at once; more wait.
    pub parallel: usize,
    /// The most bytes of a result.
    pub result_bytes: usize,
    /// The folder of OAuth tokens; without one, logins are not possible.
    pub tokens: Option<PathBuf>,
    /// Ends servers should this process be killed; without it, servers that ignore the end of their
    /// input live on.
    pub guardian: Option<Guardian>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            environment: BTreeMap::new(),
            cwd: PathBuf::from("/"),
            start_timeout: Duration::from_secs(60),
            download_timeout: Duration::from_secs(600),
            call_timeout: None,
            idle: Duration::from_secs(30 * 60),
            parallel: 64,
            result_bytes: 16 * 1024 * 1024,
            tokens: None,
            guardian: None,
        }
    }
}

/// Bounds of one request, and the client behind it.
#[derive(Clone)]
pub struct CallContext {
    /// When the caller needs an answer at the latest.
    pub deadline: Option<Instant>,
    /// Fires when the caller gives up.
    pub cancel: CancellationToken,
    /// The client that gets questions, progress and log lines.
    pub interact: Arc<dyn Interact>,
}

impl Default for CallContext {
    fn default() -> Self {
        Self {
            deadline: None,
            cancel: CancellationToken::new(),
            interact: Arc::new(NoClient),
        }
    }
}

/// What a server is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// The server was not needed yet, or is stopped because it was not used.
    NotRunning,
    /// The server is coming up; the step that it takes.
    Starting(&'static str),
    /// The server answers.
    Running {
        /// What the server said of itself.
        peer: Peer,
        /// How often it wrote something that is not a message.
        non_protocol: u64,
    },
    /// The server failed, and is tried again when it is next asked for.
    Failed(Error),
}

/// All servers that have been asked for.
pub struct Upstreams {
    shared: Arc<Shared>,
    servers: Mutex<HashMap<ServerName, Arc<Server>>>,
}

/// What all servers share.
struct Shared {
    options: Options,
    changes: broadcast::Sender<ServerName>,
    stopped: CancellationToken,
    /// Room for large answers, of all servers together.
    large: Arc<Semaphore>,
    /// Servers whose definition has changed, until they are gone.
    retiring: TaskTracker,
}

impl Upstreams {
    /// Starts nothing: each server starts when it is first asked for.
    pub fn new(options: Options) -> Self {
        let shared = Shared {
            options,
            changes: broadcast::channel(64).0,
            stopped: CancellationToken::new(),
            large: Arc::new(Semaphore::new(LARGE_AT_ONCE)),
            retiring: TaskTracker::new(),
        };
        Self {
            shared: Arc::new(shared),
            servers: Mutex::default(),
        }
    }

    /// Names of servers whose tools have changed.
    pub fn changes(&self) -> broadcast::Receiver<ServerName> {
        self.shared.changes.subscribe()
    }

    /// The tools of a server, which is started where needed.
    pub async fn tools(
        &self,
        definition: &Arc<Definition>,
        context: &CallContext,
    ) -> Result<Arc<ToolList>, Error> {
        self.server(definition)?.tools(context).await
    }

    /// The tools of a server as far as they are known without starting it.
    pub fn known_tools(&self, definition: &Definition) -> Option<Arc<ToolList>> {
        let servers = self.servers.lock();
        servers
            .get(&definition.name)
            .filter(|server| server.is_for(definition))?
            .known_tools()
    }

    /// Calls a tool; the answer is the whole `CallToolResult` as the server sent it.
    pub async fn call(
        &self,
        definition: &Arc<Definition>,
        tool: &str,
        arguments: Payload,
        context: &CallContext,
    ) -> Result<Payload, Error> {
        let params = Params {
            fields: Map::from_iter([("name".to_owned(), Value::from(tool))]),
            payload: Some(("arguments", arguments)),
        };
        self.server(definition)?
            .request("tools/call", tool, params, context)
            .await
    }

    /// All resources, or all templates of resources, as the server sent them.
    pub async fn resources(
        &self,
        definition: &Arc<Definition>,
        templates: bool,
        context: &CallContext,
    ) -> Result<Vec<Value>, Error> {
        let (method, key) = if templates {
            ("resources/templates/list", "resourceTemplates")
        } else {
            ("resources/list", "resources")
        };
        self.server(definition)?.list(method, key, context).await
    }

    /// Reads a resource; the answer is the whole `ReadResourceResult`.
    pub async fn read_resource(
        &self,
        definition: &Arc<Definition>,
        uri: &str,
        context: &CallContext,
    ) -> Result<Payload, Error> {
        let params = Map::from_iter([("uri".to_owned(), Value::from(uri))]);
        self.server(definition)?
            .request("resources/read", "read_resource", params.into(), context)
            .await
    }

    /// All prompts, as the server sent them.
    pub async fn prompts(
        &self,
        definition: &Arc<Definition>,
        context: &CallContext,
    ) -> Result<Vec<Value>, Error> {
        self.server(definition)?
            .list("prompts/list", "prompts", context)
            .await
    }

    /// Fills in a prompt; the answer is the whole `GetPromptResult`.
    pub async fn prompt(
        &self,
        definition: &Arc<Definition>,
        name: &str,
        arguments: Payload,
        context: &CallContext,
    ) -> Result<Payload, Error> {
        let params = Params {
            fields: Map::from_iter([("name".to_owned(), Value::from(name))]),
            payload: (arguments.get() != "{}").then_some(("arguments", arguments)),
        };
        self.server(definition)?
            .request("prompts/get", "get_prompt", params, context)
            .await
    }

    /// What the server of this name is doing.
    pub fn status(&self, name: &ServerName) -> Status {
        self.servers
            .lock()
            .get(name)
            .map_or(Status::NotRunning, |server| server.status())
    }

    /// Stops all servers at once. Returns when they are gone, after a few seconds at the latest.
    pub async fn shutdown(&self) {
        self.shared.stopped.cancel();
        let servers: Vec<_> = self
            .servers
            .lock()
            .drain()
            .map(|(_, server)| server)
            .collect();
        let stops = servers.iter().map(|server| server.stop());
        // Each server takes at most 3 s until it is killed; the limit is for what cannot be
        // foreseen.
        self.shared.retiring.close();
        let all = futures_util::future::join(
            futures_util::future::join_all(stops),
            self.shared.retiring.wait(),
        );
        if tokio::time::timeout(Duration::from_secs(5), all)
            .await
            .is_err()
        {
            tracing::warn!("some servers took too long to stop and were left to the guardian");
        }
    }

    /// The actor for `definition`; an actor for an older definition of the name is retired.
    fn server(&self, definition: &Arc<Definition>) -> Result<Arc<Server>, Error> {
        if self.shared.stopped.is_cancelled() {
            return Err(Error::ShuttingDown {
                server: definition.name.clone(),
            });
        }
        let mut servers = self.servers.lock();
        if let Some(server) = servers
            .get(&definition.name)
            .filter(|server| server.is_for(definition))
        {
            return Ok(Arc::clone(server));
        }
        let secrets = definition.secrets().iter().map(ExposeSecret::expose_secret);
        let server = Server::new(
            Arc::clone(definition),
            Redactor::new(secrets),
            Arc::clone(&self.shared),
        );
        let old = servers.insert(definition.name.clone(), Arc::clone(&server));
        if let Some(old) = old {
            self.shared
                .retiring
                .spawn(async move { old.retire().await });
        }
        Ok(server)
    }
}
