//! Whose sessions a request means: an MCP session has a set of its own, which ends with it; requests of the revision that knows
//! no MCP sessions share one.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio_util::task::TaskTracker;

use crate::{Rejected, Runner};
use bridge_session::{FileError, OutFile, Progress, Run, RunRequest, Sessions};

/// MCP sessions at once. Each may have as many sessions of Python as the settings allow.
const LIMIT: usize = 16;

/// The clients of one listener.
pub struct Clients {
    shared: Arc<Sessions>,
    new: Box<dyn Fn() -> Sessions + Send + Sync>,
    open: Mutex<Vec<Weak<Sessions>>>,
    ending: TaskTracker,
}

impl Clients {
    /// Requests without an MCP session use `shared`; `new` makes a set for each MCP session.
    pub fn new(
        shared: Arc<Sessions>,
        new: impl Fn() -> Sessions + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            new: Box::new(new),
            open: Mutex::default(),
            ending: TaskTracker::new(),
        })
    }

    /// For one connection as rmcp sees it: an MCP session, or a single request.
    pub(super) fn client(self: &Arc<Self>) -> Arc<dyn Runner> {
        Arc::new(Client {
            clients: Arc::clone(self),
            own: OnceLock::new(),
        })
    }

    /// Ends the sets of all MCP sessions, and waits for it.
    pub async fn close(&self) {
        let open: Vec<_> = self.lock().drain(..).collect();
        let open = open.iter().filter_map(Weak::upgrade);
        join_all(open.map(|sessions| async move { sessions.shutdown().await })).await;
        self.ending.close();
        self.ending.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Sessions>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Client {
    clients: Arc<Clients>,
    own: OnceLock<Arc<Sessions>>,
}

impl Client {
    fn sessions(&self) -> &Sessions {
        self.own.get().unwrap_or(&self.clients.shared)
    }
}

#[async_trait]
impl Runner for Client {
    fn start(
        &self,
        request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<Arc<Run>, Rejected> {
        Runner::start(self.sessions(), request, progress)
    }

    fn find(&self, id: &str, session: Option<&str>) -> Result<Arc<Run>, Rejected> {
        Runner::find(self.sessions(), id, session)
    }

    fn files(&self) -> Vec<(String, Vec<OutFile>)> {
        Runner::files(self.sessions())
    }

    async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError> {
        Runner::read_file(self.sessions(), session, path).await
    }

    fn open(&self) -> Result<(), Rejected> {
        let mut open = self.clients.lock();
        open.retain(|sessions| sessions.strong_count() > 0);
        if open.len() >= LIMIT {
            return Err(Rejected::Busy {
                reason: "too_many_clients",
                message: format!("{LIMIT} clients are connected already; close one of them"),
            });
        }
        let sessions = Arc::new((self.clients.new)());
        if self.own.set(Arc::clone(&sessions)).is_ok() {
            open.push(Arc::downgrade(&sessions));
        }
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(sessions) = self.own.take() {
            self.clients
                .ending
                .spawn(async move { sessions.shutdown().await });
        }
    }
}
