//! Finds an engine when one is needed, keeps it, finds another when it has died, and ends what the
//! bridge started for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;

use super::docker::{Machine, Service, candidates};
use super::leftovers::ContainerOwner;
use super::{Engine, Error, Owner};
use bridge_common::host::HostEnv;
use bridge_settings::{EngineKind, EngineSettings};

mod hints;
mod idle;
mod search;

use search::Search;

/// Called with what takes long, in words for people.
pub type Tell<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Finds the engine and keeps it. Ends with [`Finder::close`].
pub struct Finder {
    settings: EngineSettings,
    host: HostEnv,
    found: Mutex<Found>,
    usage: Arc<Usage>,
}

#[derive(Default)]
struct Found {
    engine: Option<Arc<dyn Engine>>,
    service: Option<Service>,
    machine: Option<StartedMachine>,
}

/// A machine that the bridge started, and the task that stops it when it is idle.
struct StartedMachine {
    machine: Machine,
    watch: Option<JoinHandle<()>>,
}

/// How many guests use the engine.
#[derive(Default)]
struct Usage {
    count: AtomicUsize,
    changed: Notify,
}

/// Keeps the engine's machine from being stopped while this exists.
pub struct InUse(Arc<Usage>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

impl Finder {
    /// Does not search yet.
    pub fn new(settings: EngineSettings, host: HostEnv) -> Self {
        Self {
            settings,
            host,
            found: Mutex::default(),
            usage: Arc::default(),
        }
    }

    /// Marks the engine as in use until the returned value is dropped.
    pub fn in_use(&self) -> InUse {
        self.usage.count.fetch_add(1, Ordering::AcqRel);
        self.usage.changed.notify_waiters();
        InUse(self.usage.clone())
    }

    /// The engine found before, or the first that answers. Callers at the same time share one
    /// search.
    pub async fn engine(&self, tell: Tell<'_>) -> Result<Arc<dyn Engine>, Error> {
        let mut found = self.found.lock().await;
        if let Some(engine) = &found.engine {
            return Ok(engine.clone());
        }
        let engine = self.search(&mut found, tell).await?;
        found.engine = Some(engine.clone());
        Ok(engine)
    }

    /// What another process needs to remove the containers of `owner` from `engine`: a line for
    /// [`remove_leftovers`](super::remove_leftovers).
    pub async fn container_owner(&self, engine: &dyn Engine, owner: &Owner) -> String {
        let found = self.found.lock().await;
        let owner = ContainerOwner {
            endpoint: engine.identity().endpoint.clone(),
            instance: owner.instance().to_owned(),
            service: found
                .service
                .as_ref()
                .map(|service| service.folder().to_owned()),
        };
        // Fails only for a path that is not UTF-8: then nothing is removed, as for an engine that
        // is gone.
        serde_json::to_string(&owner).unwrap_or_default()
    }

    /// Forgets an engine that has died; the next caller of [`Finder::engine`] starts a new search.
    pub async fn forget(&self, engine: &Arc<dyn Engine>) {
        let mut found = self.found.lock().await;
        if found
            .engine
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, engine))
        {
            found.engine = None;
            if let Some(service) = found.service.take() {
                service.end().await;
            }
        }
    }

    /// Ends the service and the machine that this finder started. A machine in which something
    /// still runs stays on.
    pub async fn close(&self) {
        let mut found = self.found.lock().await;
        let engine = found.engine.take();
        if let Some(mut started) = found.machine.take() {
            if let Some(watch) = started.watch.take() {
                watch.abort();
            }
            if let Some(engine) = engine {
                idle::stop_if_empty(&started.machine, engine.as_ref()).await;
            }
        }
        if let Some(service) = found.service.take() {
            service.end().await;
        }
    }

    async fn search(&self, found: &mut Found, tell: Tell<'_>) -> Result<Arc<dyn Engine>, Error> {
        let mut search = Search::new(self);
        let candidates = candidates(&self.host, &self.settings);
        let explicit = candidates.iter().find(|candidate| candidate.explicit);
        let explicit = explicit.and_then(|candidate| candidate.origin.clone());
        for candidate in candidates {
            if let Some(engine) = search.candidate(candidate).await {
                return Ok(engine);
            }
        }
        if explicit.is_none() && self.settings.kind != Some(EngineKind::Docker) {
            if let Some(engine) = search.service(found, tell).await {
                return Ok(engine);
            }
            if let Some(engine) = search.machine(found, tell).await {
                return Ok(engine);
            }
        }
        Err(search.failed(explicit))
    }
}
