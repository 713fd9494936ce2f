//! The one way from a guest to anything on the host: every request of user code is checked here,
//! then passed on.
//!
//! **Owns** which servers a session may use, the bounds of a run's requests, and the removal of
//! configured secrets from everything that goes back to the guest. **Must never know** how frames
//! are written (outcomes are handed to the session, which maps them), how a server is reached
//! (`bridge-upstream`), or how a run is stopped.
//!
//! Enter through [`Broker::new`] and [`Broker::scope`]. A [`Scope`] belongs to one Python session:
//! [`Scope::load`] brings up servers, [`Scope::run`] begins a [`Run`]. A run belongs to one
//! execution: [`Run::request`] takes a request, whose [`Outcome`] comes through the run's receiver,
//! and [`Run::end`] cancels what is left.

mod calls;
mod context;
mod discovery;
mod guest_error;
mod load;
mod params;
mod redacting;
mod request;
mod run;
mod state;
mod update;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::Semaphore;

pub use calls::{Summary, Tally};
pub use context::{Outcome, RunContext};
pub use guest_error::{GuestError, Kind};
use load::Failure;
pub use load::{Loaded, LoadedServer};
pub use redacting::Secrets;
pub use run::Run;

use bridge_catalog::{Catalog, Definition, ServerName, Watcher};
use bridge_common::Mutex;
use bridge_store::Store;
use bridge_tools::{ServerTools, ToolBook};
use bridge_upstream::{Redactor, ToolList, Upstreams};

/// What one session and one run may do.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests of one session worked on at once; more wait.
    pub parallel: usize,
    /// Requests of one run that may be under way or waiting; more are refused.
    pub pending: usize,
    /// Bytes of their arguments.
    pub pending_bytes: usize,
    /// Tool calls of one run.
    pub calls: u64,
    /// Changes of one run to what is kept.
    pub writes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parallel: 64,
            pending: 2_000,
            pending_bytes: 64 << 20,
            calls: 5_000,
            writes: 20_000,
        }
    }
}

/// A list as a server gave it, and its tools with their names in Python.
type Named = (Arc<ToolList>, Arc<ServerTools>);

/// Checks and passes on the requests of all sessions.
pub struct Broker {
    watcher: Arc<Watcher>,
    upstreams: Arc<Upstreams>,
    book: Arc<ToolBook>,
    store: Arc<Store>,
    limits: Limits,
    /// Tools as their servers listed them, and as the book names them.
    named: Mutex<HashMap<ServerName, Named>>,
    /// Of the catalog that was asked for last.
    secrets: Mutex<Option<Arc<Secrets>>>,
}

impl Broker {
    /// A broker over the servers of this machine and what is kept on it.
    pub fn new(
        watcher: Arc<Watcher>,
        upstreams: Arc<Upstreams>,
        book: Arc<ToolBook>,
        store: Arc<Store>,
        limits: Limits,
    ) -> Arc<Self> {
        Arc::new(Self {
            watcher,
            upstreams,
            book,
            store,
            limits,
            named: Mutex::default(),
            secrets: Mutex::default(),
        })
    }

    /// The store of what outlives sessions.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What a new session may use: nothing yet.
    pub fn scope(self: &Arc<Self>) -> Arc<Scope> {
        Arc::new(Scope {
            permits: Arc::new(Semaphore::new(self.limits.parallel.max(1))),
            broker: Arc::clone(self),
            allowed: Mutex::default(),
            catalog: Mutex::default(),
            installed: Mutex::default(),
            failures: Mutex::default(),
        })
    }

    /// The definitions as their files are now.
    async fn catalog(&self) -> Arc<Catalog> {
        let watcher = Arc::clone(&self.watcher);
        match tokio::task::spawn_blocking(move || watcher.current()).await {
            Ok(catalog) => catalog,
            // The runtime is going down.
            Err(_) => self.watcher.current(),
        }
    }

    /// The secrets of the definitions as their files are now. Blocks for as long as files take to
    /// read.
    pub fn secrets(&self) -> Arc<Secrets> {
        self.secrets_of(&self.watcher.current())
    }

    fn secrets_of(&self, catalog: &Arc<Catalog>) -> Arc<Secrets> {
        let mut known = self.secrets.lock();
        match &*known {
            Some(secrets) if secrets.are_of(catalog) => Arc::clone(secrets),
            _ => {
                let secrets = Arc::new(Secrets::of(Arc::clone(catalog)));
                *known = Some(Arc::clone(&secrets));
                secrets
            }
        }
    }

    /// Hides every secret of every definition.
    async fn redactor(&self, catalog: &Arc<Catalog>) -> Redactor {
        self.secrets_of(catalog).ready().await
    }
}

/// What one Python session may use.
pub struct Scope {
    broker: Arc<Broker>,
    permits: Arc<Semaphore>,
    allowed: Mutex<BTreeSet<ServerName>>,
    /// The definitions as they were when servers were last loaded: what a run was given stays the
    /// same while it runs.
    catalog: Mutex<Option<Arc<Catalog>>>,
    /// The tools that the guest has proxies for.
    installed: Mutex<BTreeMap<ServerName, Arc<ServerTools>>>,
    /// Servers that did not come up when they were last tried.
    failures: Mutex<BTreeMap<ServerName, Failure>>,
}

impl Scope {
    /// The session starts afresh: no server is allowed any more.
    pub fn reset(&self) {
        self.allowed.lock().clear();
        self.failures.lock().clear();
        self.forget_installed();
    }

    /// The guest is a new one and has no proxies yet; what is allowed stays so.
    pub fn forget_installed(&self) {
        self.installed.lock().clear();
    }

    /// Names of the servers that the session may use.
    pub fn allowed(&self) -> Vec<ServerName> {
        self.allowed.lock().iter().cloned().collect()
    }

    fn is_allowed(&self, name: &ServerName) -> bool {
        self.allowed.lock().contains(name)
    }

    /// The definition of a server that the session may use. The only way to one: whatever a guest
    /// calls it, it is looked up in the catalog first and then in the list.
    fn definition<'c>(
        &self,
        catalog: &'c Catalog,
        name: &str,
    ) -> Result<&'c Arc<Definition>, GuestError> {
        let definition = catalog
            .definition(name)
            .map_err(|error| GuestError::new(Kind::Name, error.to_string()))?;
        if self.is_allowed(&definition.name) {
            return Ok(definition);
        }
        let (alias, name) = (&definition.alias, &definition.name);
        let message = format!(
            "mcp_{alias}: server \"{name}\" is known but not loaded; call run_python with servers=[\"{name}\"]"
        );
        Err(GuestError::new(Kind::Name, message).of_server(name))
    }
}
