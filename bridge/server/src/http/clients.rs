//! Which sessions an HTTP request can reach: each MCP session has a set of its own, which ends with
//! it; requests of the protocol revision without MCP sessions share one set.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio_util::task::TaskTracker;

use crate::{Rejected, Runner};
use bridge_common::Mutex;
use bridge_session::{FileError, OutFile, Progress, Run, RunRequest, Sessions};

/// The most MCP sessions at once. Each may have as many Python sessions as the settings allow.
const MAX_CLIENTS: usize = 16;

/// The clients of one HTTP listener.
pub struct Clients {
    shared: Arc<Sessions>,
    new: Box<dyn Fn() -> Sessions + Send + Sync>,
    open: Mutex<Vec<Weak<Sessions>>>,
    ending: TaskTracker,
}

impl Clients {
    /// Uses `shared` for requests without an MCP session, and `new` to make a set for each MCP
    /// session.
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

    /// A runner for one MCP session or one request without a session, whichever rmcp makes of it.
    pub(super) fn client(self: &Arc<Self>) -> Arc<dyn Runner> {
        Arc::new(Client {
            clients: Arc::clone(self),
            own: OnceLock::new(),
        })
    }

    /// Ends the sessions of all clients and waits until they have ended.
    pub async fn close(&self) {
        let open: Vec<_> = self.open.lock().drain(..).collect();
        let open = open.iter().filter_map(Weak::upgrade);
        join_all(open.map(|sessions| async move { sessions.shutdown().await })).await;
        self.ending.close();
        self.ending.wait().await;
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
        let mut open = self.clients.open.lock();
        open.retain(|sessions| sessions.strong_count() > 0);
        if open.len() >= MAX_CLIENTS {
            return Err(Rejected::Busy {
                reason: "too_many_clients",
                message: format!(
                    "too many clients: {MAX_CLIENTS} clients are connected already; close one of them"
                ),
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
