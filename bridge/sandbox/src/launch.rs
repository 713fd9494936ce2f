//! Launching a guest: finds an engine, verifies the image, creates a hardened container from it,
//! compares that with what was asked for, and starts it.
//!
//! If anything fails once a container exists, or the caller gives up, the container is removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::image::{self, Images};
use bridge_engine::{
    Attached, ContainerId, ContainerSpec, Created, Engine, EngineReport, Error, Finder, ImageFacts,
    InUse, Owner,
};
use bridge_guardian::Guardian;
use bridge_session::{Guest, Launch, LaunchError, Progress};
use bridge_settings::{Limit, Limits, Settings};

mod container;
mod diagnostics;
mod ledger;

use container::{ContainerGuest, Hold};
pub use diagnostics::explain_exit;
use ledger::Ledger;

/// Starts verified, hardened guests on the engine that is found.
pub struct Launcher {
    shared: Arc<Shared>,
}

/// What outlives a launch, because the tasks that end guests need it.
struct Shared {
    finder: Finder,
    images: Images,
    limits: Limits,
    allow_unenforced: BTreeSet<Limit>,
    runtime: Option<String>,
    owner: Owner,
    guardian: Option<Guardian>,
    ledger: Ledger,
    /// Starts, removals and reaping; awaited before the bridge ends.
    tasks: TaskTracker,
    /// The engine that the guardian was last told of.
    guarded: Mutex<Option<Arc<dyn Engine>>>,
}

impl Launcher {
    /// Neither finds nor starts anything yet. `guardian` removes containers should this process be
    /// killed.
    pub fn new(settings: &Settings, guardian: Option<Guardian>) -> Self {
        let shared = Shared {
            finder: Finder::new(settings.engine.clone(), settings.host.clone()),
            images: Images::new(settings.image.clone()),
            limits: settings.limits,
            allow_unenforced: settings.engine.allow_unenforced.clone(),
            runtime: settings.engine.runtime.clone(),
            owner: Owner::of_process(),
            guardian,
            ledger: Ledger::default(),
            tasks: TaskTracker::new(),
            guarded: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The search for the engine that guests run on.
    pub fn finder(&self) -> &Finder {
        &self.shared.finder
    }

    /// The image of the guests.
    pub fn images(&self) -> &Images {
        &self.shared.images
    }

    /// Waits until every guest that was let go is removed, then ends what was started for the
    /// engine. The guardian is told that all is in order only if every container is known to be
    /// gone.
    pub async fn close(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.finder.close().await;
        if let Some(guardian) = &self.shared.guardian
            && self.shared.ledger.is_settled()
        {
            guardian.containers_in_order();
        }
    }
}

#[async_trait]
impl Launch for Launcher {
    async fn launch(
        &self,
        session: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<Box<dyn Guest>, LaunchError> {
        let mut in_use = self.shared.finder.in_use();
        let mut last_try = false;
        loop {
            let found = self.shared.prepare(progress).await;
            let failure = match found {
                Ok(Prepared {
                    engine,
                    image,
                    is_first,
                }) => {
                    let start = self.shared.clone().start(
                        engine.clone(),
                        image,
                        session.map(str::to_owned),
                        in_use,
                    );
                    let started = start.await;
                    if is_first {
                        // Whoever waits for the guest does not wait for an engine that is busy with
                        // this.
                        self.shared.reap(&engine);
                    }
                    match started {
                        Ok(guest) => return Ok(Box::new(guest)),
                        Err(failure) => (Some(engine), failure),
                    }
                }
                Err(failure) => failure,
            };
            // An engine that went away while unused is searched for again, but only once: this very
            // guest may have killed it.
            let (engine, failure) = failure;
            if let (Some(engine), true) = (engine, failure.is_gone()) {
                self.shared.finder.forget(&engine).await;
                if !last_try {
                    last_try = true;
                    in_use = self.shared.finder.in_use();
                    continue;
                }
            }
            return Err(failure.into());
        }
    }
}

/// Where a guest can be started.
struct Prepared {
    engine: Arc<dyn Engine>,
    image: ImageFacts,
    /// Whether nothing was started on this engine before.
    is_first: bool,
}

/// Why a launch failed; `diagnostics` puts it into words.
#[derive(Debug)]
enum Failure {
    Engine(Error),
    Image(image::Error),
    Limits(Vec<Limit>, Option<EngineReport>, Limits),
    Different(String, Vec<String>),
    Start(Error),
}

impl Failure {
    fn is_gone(&self) -> bool {
        match self {
            Self::Engine(error) | Self::Start(error) | Self::Image(image::Error::Engine(error)) => {
                error.is_gone()
            }
            _ => false,
        }
    }
}

impl Shared {
    /// An engine with a verified image, which the guardian knows of. A failure comes with the
    /// engine that it was met on.
    async fn prepare(
        &self,
        progress: &dyn Progress,
    ) -> Result<Prepared, (Option<Arc<dyn Engine>>, Failure)> {
        let tell = |message: &str| progress.report(message, 0, None);
        let engine = self.finder.engine(&tell).await;
        let engine = engine.map_err(|error| (None, Failure::Engine(error)))?;
        let tell = |message: &str, done, total| progress.report(message, done, total);
        // The engine is asked about the image while a process starts here.
        let image = self.images.ready(engine.as_ref(), &tell);
        match tokio::join!(image, self.guard(&engine)) {
            (Ok(image), is_first) => Ok(Prepared {
                engine,
                image,
                is_first,
            }),
            (Err(error), _) => {
                // Nothing starts, and the next try is the first one again.
                *self.guarded.lock().await = None;
                Err((Some(engine), Failure::Image(error)))
            }
        }
    }

    /// Tells the guardian of an engine, before the first container on it. Returns whether the
    /// engine is a new one.
    async fn guard(&self, engine: &Arc<dyn Engine>) -> bool {
        let mut guarded = self.guarded.lock().await;
        if guarded
            .as_ref()
            .is_some_and(|guarded| Arc::ptr_eq(guarded, engine))
        {
            return false;
        }
        if let Some(guardian) = &self.guardian {
            let owner = self.finder.container_owner(engine.as_ref(), &self.owner);
            guardian.guard_containers(owner.await);
        }
        *guarded = Some(engine.clone());
        true
    }

    /// Removes what dead bridges left, in the background.
    fn reap(&self, engine: &Arc<dyn Engine>) {
        let (engine, owner) = (engine.clone(), self.owner.clone());
        self.tasks.spawn(async move {
            if let Err(error) = engine.reap(&owner).await {
                tracing::warn!(%error, "cannot remove what earlier bridges left");
            }
        });
    }

    /// Creates and starts the guest in a task of its own, since a caller that gives up half-way
    /// would leave a container.
    async fn start(
        self: Arc<Self>,
        engine: Arc<dyn Engine>,
        image: ImageFacts,
        session: Option<String>,
        in_use: InUse,
    ) -> Result<ContainerGuest, Failure> {
        let tasks = self.tasks.clone();
        let task = tasks.spawn(async move {
            let spec = ContainerSpec {
                image_id: image.id,
                environment: image.environment,
                limits: self.limits,
                labels: self.owner.labels(session.as_deref()),
                runtime: self.runtime.clone(),
            };
            let entry = self.ledger.open();
            let id = match engine.create(&spec).await {
                Ok(id) => id,
                Err(error) => {
                    if !error.is_uncertain() {
                        entry.settle();
                    }
                    return Err(Failure::Start(error));
                }
            };
            // From here on, dropping the guest removes the container.
            let hold = Hold { entry, in_use };
            let guest = ContainerGuest::new(engine.clone(), id.clone(), &self, hold);
            match self.run(engine.as_ref(), &id, &spec).await {
                Ok(attached) => Ok(guest.started(attached)),
                Err(failure) => {
                    guest.discard().await;
                    Err(failure)
                }
            }
        });
        match task.await {
            Ok(result) => result,
            Err(error) => Err(Failure::Different(
                "the engine".to_owned(),
                vec![format!(
                    "starting the guest failed inside the bridge ({error})"
                )],
            )),
        }
    }

    /// Compares, attaches and starts. Attaching takes podman as long as everything else, so both
    /// are asked for at once. Nothing of the guest runs before the last step.
    async fn run(
        &self,
        engine: &dyn Engine,
        id: &ContainerId,
        spec: &ContainerSpec,
    ) -> Result<Attached, Failure> {
        let (created, attached) = tokio::join!(engine.inspect(id, spec), engine.attach(id));
        self.compare(engine, spec, created.map_err(Failure::Start)?)
            .await?;
        let attached = attached.map_err(Failure::Start)?;
        engine.start(id).await.map_err(Failure::Start)?;
        Ok(attached)
    }

    async fn compare(
        &self,
        engine: &dyn Engine,
        spec: &ContainerSpec,
        created: Created,
    ) -> Result<(), Failure> {
        if created.image_id != spec.image_id {
            return Err(Failure::Image(image::Error::Mismatch {
                what: "container of image",
                expected: spec.image_id.clone(),
                found: created.image_id,
                perhaps: "",
            }));
        }
        if !created.differences.is_empty() {
            let engine = engine.identity().kind.to_string();
            return Err(Failure::Different(engine, created.differences));
        }
        let refused: Vec<Limit> = created
            .unenforced
            .into_iter()
            .filter(|limit| !self.allow_unenforced.contains(limit))
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        Err(Failure::Limits(
            refused,
            engine.report().await.ok(),
            self.limits,
        ))
    }
}
