//! Finds an engine when one is needed, keeps it, finds another when it has died, and ends what the bridge started for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;

use super::api::ApiEngine;
use super::candidates::{Address, Candidate, candidates};
use super::connect::{Connection, connect};
use super::podman::{Machine, Service};
use super::surroundings::Surroundings;
use super::sweeper::{Sweeper, Task};
use super::{Attempt, Attempts, Engine, Error, Owner};
use crate::settings::{EngineKind, EngineSettings};

/// Told of what takes long, in words for people.
pub type Tell<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Finds the engine.
pub struct Finder {
    settings: EngineSettings,
    surroundings: Surroundings,
    found: Mutex<Found>,
    usage: Arc<Usage>,
    sweeping: Option<Sweeping>,
}

/// How what a killed bridge leaves is swept.
struct Sweeping {
    /// The bridge's executable.
    program: PathBuf,
    owner: Owner,
}

#[derive(Default)]
struct Found {
    engine: Option<Arc<dyn Engine>>,
    service: Option<Service>,
    machine: Option<StartedMachine>,
    sweeper: Option<Sweeper>,
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

/// Held while the engine is in use, so that its machine is not stopped.
pub struct InUse(Arc<Usage>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

impl Finder {
    /// Looks for nothing yet.
    pub fn new(settings: EngineSettings, surroundings: Surroundings) -> Self {
        Self {
            settings,
            surroundings,
            found: Mutex::default(),
            usage: Arc::default(),
            sweeping: None,
        }
    }

    /// Has a second process of `program`, which must be the bridge's, sweep up after this one should it be killed.
    #[must_use]
    pub fn swept_by(mut self, program: PathBuf, owner: Owner) -> Self {
        self.sweeping = Some(Sweeping { program, owner });
        self
    }

    /// Says that the engine is in use until the answer is dropped.
    pub fn in_use(&self) -> InUse {
        self.usage.count.fetch_add(1, Ordering::AcqRel);
        self.usage.changed.notify_waiters();
        InUse(self.usage.clone())
    }

    /// The engine: the one found before, else the first that answers. Callers at the same time share one search.
    pub async fn engine(&self, tell: Tell<'_>) -> Result<Arc<dyn Engine>, Error> {
        let mut found = self.found.lock().await;
        if let Some(engine) = &found.engine {
            return Ok(engine.clone());
        }
        let engine = self.search(&mut found, tell).await?;
        found.engine = Some(engine.clone());
        Ok(engine)
    }

    /// Before the first container on an engine: starts what sweeps up after this process should it be killed.
    pub(crate) async fn guard(&self, engine: &dyn Engine) {
        let Some(sweeping) = &self.sweeping else {
            return;
        };
        let mut found = self.found.lock().await;
        found.sweeper = Sweeper::start(&Task {
            program: &sweeping.program,
            endpoint: &engine.identity().endpoint,
            owner: &sweeping.owner,
            service: found.service.as_ref().map(Service::folder),
        });
    }

    /// Forgets an engine that has died, so that the next who asks has it looked for.
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

    /// Ends what was started. A machine in which something still runs is left on.
    pub async fn close(&self) {
        let mut found = self.found.lock().await;
        let engine = found.engine.take();
        found.sweeper = None;
        if let Some(mut started) = found.machine.take() {
            if let Some(watch) = started.watch.take() {
                watch.abort();
            }
            if let Some(engine) = engine {
                stop_if_empty(&started.machine, engine.as_ref()).await;
            }
        }
        if let Some(service) = found.service.take() {
            service.end().await;
        }
    }

    async fn search(&self, found: &mut Found, tell: Tell<'_>) -> Result<Arc<dyn Engine>, Error> {
        let mut search = Search {
            finder: self,
            attempts: Vec::new(),
            refusal: None,
        };
        let candidates = candidates(&self.surroundings, &self.settings);
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

/// One search, and what it has met so far.
struct Search<'a> {
    finder: &'a Finder,
    attempts: Vec<Attempt>,
    /// An engine that answers but cannot be used says more than those that do not answer.
    refusal: Option<Error>,
}

impl Search<'_> {
    async fn candidate(&mut self, candidate: Candidate) -> Option<Arc<dyn Engine>> {
        let Candidate {
            kind,
            address,
            text,
            origin,
            ..
        } = candidate;
        let result = match &address {
            Ok(address) => {
                let named_by = origin.as_deref().unwrap_or("its usual place");
                connect(address, named_by).await
            }
            Err(problem) => Err(problem.clone()),
        };
        let reason = match result {
            Ok(connection) => match self.accept(connection) {
                Ok(engine) => return Some(engine),
                Err(reason) => reason,
            },
            Err(reason) => reason,
        };
        self.attempts.push(Attempt {
            kind,
            what: text,
            origin,
            reason,
        });
        None
    }

    fn accept(&mut self, connection: Connection) -> Result<Arc<dyn Engine>, String> {
        let identity = &connection.identity;
        if let Some(wanted) = self.finder.settings.kind
            && wanted != identity.kind
        {
            return Err(format!(
                "is {}, and MCP_BRIDGE_RUNTIME asks for {wanted}",
                identity.kind
            ));
        }
        tracing::info!(
            engine.kind = %identity.kind,
            engine.version = %identity.version,
            engine.endpoint = %identity.endpoint,
            "container engine found"
        );
        match ApiEngine::new(connection, &self.finder.surroundings) {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(error) => {
                let reason = error.to_string();
                self.refusal.get_or_insert(error);
                Err(reason)
            }
        }
    }

    /// Podman's service, started for this bridge.
    async fn service(&mut self, found: &mut Found, tell: Tell<'_>) -> Option<Arc<dyn Engine>> {
        let surroundings = &self.finder.surroundings;
        let program = surroundings.program("podman");
        if program.is_none() && self.finder.settings.kind.is_none() {
            return None;
        }
        if let Some(problem) = surroundings.runtime_dir().problem {
            self.attempt("the user's runtime folder", problem);
        }
        let Some(program) = program else {
            self.attempt("the podman program", "not on the search path".to_owned());
            return None;
        };
        if cfg!(not(target_os = "linux")) {
            return None;
        }
        tell("starting podman");
        let service = match Service::start(&program, surroundings).await {
            Ok(service) => service,
            Err(problem) => {
                let problem = diagnosed(problem, surroundings);
                self.attempt("podman system service", problem);
                return None;
            }
        };
        let address = Address::Unix(service.socket().to_owned());
        let engine = match connect(&address, "podman system service, started by the bridge").await {
            Ok(connection) => self.accept(connection),
            Err(reason) => Err(reason),
        };
        match engine {
            Ok(engine) => {
                found.service = Some(service);
                Some(engine)
            }
            Err(reason) => {
                self.attempt("podman system service", reason);
                service.end().await;
                None
            }
        }
    }

    /// Podman's machine, started if it is stopped.
    async fn machine(&mut self, found: &mut Found, tell: Tell<'_>) -> Option<Arc<dyn Engine>> {
        let surroundings = &self.finder.surroundings;
        let program = surroundings.program("podman")?;
        let machine = match Machine::find(&program, surroundings).await {
            Ok(machine) => machine?,
            Err(problem) => {
                self.attempt("podman machine", problem);
                return None;
            }
        };
        if !machine.running {
            tell(&format!("starting podman machine {}", machine.name));
            if let Err(problem) = machine.start().await {
                self.attempt("podman machine", problem);
                return None;
            }
        }
        let address = Address::Unix(machine.socket.clone());
        let origin = format!("podman machine {}", machine.name);
        let engine = match connect(&address, &origin).await {
            Ok(connection) => self.accept(connection),
            Err(reason) => Err(format!("{}: {reason}", machine.socket.display())),
        };
        match engine {
            Ok(engine) => {
                if !machine.running {
                    found.machine = Some(self.watched(machine, &engine));
                }
                Some(engine)
            }
            Err(reason) => {
                self.attempt(&origin, reason);
                None
            }
        }
    }

    fn watched(&self, machine: Machine, engine: &Arc<dyn Engine>) -> StartedMachine {
        let idle = self.finder.settings.machine_idle;
        let watch = (!idle.is_zero()).then(|| {
            let usage = self.finder.usage.clone();
            tokio::spawn(stop_when_idle(machine.clone(), engine.clone(), usage, idle))
        });
        StartedMachine { machine, watch }
    }

    fn attempt(&mut self, what: &str, reason: String) {
        self.attempts.push(Attempt {
            kind: Some(EngineKind::Podman),
            what: what.to_owned(),
            origin: None,
            reason,
        });
    }

    fn failed(self, explicit: Option<String>) -> Error {
        if let Some(refusal) = self.refusal {
            return refusal;
        }
        let start = match explicit {
            Some(origin) => format!("Start it, or correct {origin}"),
            None => way_to_start(
                &self.finder.surroundings,
                self.finder.settings.kind,
                &self.attempts,
            ),
        };
        Error::NotFound(Attempts {
            tried: self.attempts,
            start,
        })
    }
}

/// Stops the machine once no guest has used it for `idle`. The engine is then looked for, and the machine started, anew.
async fn stop_when_idle(
    machine: Machine,
    engine: Arc<dyn Engine>,
    usage: Arc<Usage>,
    idle: Duration,
) {
    loop {
        let changed = usage.changed.notified();
        if usage.count.load(Ordering::Acquire) > 0 {
            changed.await;
            continue;
        }
        if tokio::time::timeout(idle, changed).await.is_ok() {
            continue;
        }
        if usage.count.load(Ordering::Acquire) == 0
            && stop_if_empty(&machine, engine.as_ref()).await
        {
            return;
        }
    }
}

/// Stops the machine unless something runs in it, ours or not; tells whether it is stopped.
async fn stop_if_empty(machine: &Machine, engine: &dyn Engine) -> bool {
    match engine.running().await {
        Ok(0) => {}
        Ok(_) => return false,
        // It has gone by itself.
        Err(_) => return true,
    }
    match machine.stop().await {
        Ok(()) => {
            tracing::info!(machine.name = %machine.name, "stopped the idle podman machine");
            true
        }
        Err(problem) => {
            tracing::warn!(problem = %problem, "could not stop the podman machine");
            false
        }
    }
}

/// Adds what is known to be missing when rootless podman does not start.
fn diagnosed(problem: String, surroundings: &Surroundings) -> String {
    if surroundings.uid == 0 {
        return problem;
    }
    if surroundings.program("newuidmap").is_none() {
        return format!(
            "{problem}; newuidmap is not on the search path (Debian: install uidmap; NixOS: /run/wrappers/bin)"
        );
    }
    let ranges = std::fs::read_to_string(surroundings.at("/etc/subuid")).unwrap_or_default();
    if ranges.trim().is_empty() {
        return format!(
            "{problem}; /etc/subuid has no range for this user (sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER)"
        );
    }
    let apparmor = surroundings.at("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    if std::fs::read_to_string(apparmor).is_ok_and(|value| value.trim() == "1") {
        return format!(
            "{problem}; AppArmor restricts user namespaces here (sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for podman)"
        );
    }
    problem
}

/// What to do to have an engine.
fn way_to_start(
    surroundings: &Surroundings,
    kind: Option<EngineKind>,
    attempts: &[Attempt],
) -> String {
    let denied = attempts.iter().any(|attempt| {
        attempt.kind == Some(EngineKind::Docker) && attempt.reason == "permission denied"
    });
    let podman = kind != Some(EngineKind::Docker) && surroundings.program("podman").is_some();
    let docker = kind != Some(EngineKind::Podman) && surroundings.program("dockerd").is_some();
    let systemd = surroundings.at("/run/systemd/system").is_dir();
    if cfg!(target_os = "macos") && podman {
        "Start one: podman machine init, podman machine start".to_owned()
    } else if podman && systemd && surroundings.uid != 0 {
        "Start one: systemctl --user start podman.socket".to_owned()
    } else if podman && systemd {
        "Start one: systemctl start podman.socket".to_owned()
    } else if denied {
        "Join docker's group: sudo usermod -aG docker $USER, and log in again".to_owned()
    } else if docker && systemd {
        "Start one: sudo systemctl start docker".to_owned()
    } else if docker {
        "Start one: sudo dockerd".to_owned()
    } else if podman {
        "See what podman says: podman info".to_owned()
    } else {
        format!(
            "Install one, such as {}",
            kind.unwrap_or(EngineKind::Podman)
        )
    }
}
