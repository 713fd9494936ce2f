//! One search for an engine, with everything it tried.

use std::sync::Arc;

use super::{Finder, Found, StartedMachine, Tell, hints, idle};
use crate::docker::{Address, Candidate, Connection, DockerEngine, Machine, Service, connect};
use crate::{Attempt, Attempts, ConnectError, Engine, Error};
use bridge_settings::EngineKind;

/// One search, with the attempts so far.
pub(super) struct Search<'a> {
    finder: &'a Finder,
    attempts: Vec<Attempt>,
    /// Why an engine that answers cannot be used: more helpful than those that do not answer.
    unusable: Option<Error>,
}

impl<'a> Search<'a> {
    /// A search that has not tried anything yet.
    pub(super) fn new(finder: &'a Finder) -> Self {
        Self {
            finder,
            attempts: Vec::new(),
            unusable: None,
        }
    }

    /// The engine at an address, if it can be used.
    pub(super) async fn candidate(&mut self, candidate: Candidate) -> Option<Arc<dyn Engine>> {
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
            Err(problem) => Err(ConnectError::Address(problem.clone())),
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

    fn accept(&mut self, connection: Connection) -> Result<Arc<dyn Engine>, ConnectError> {
        let identity = &connection.identity;
        if let Some(wanted) = self.finder.settings.kind
            && wanted != identity.kind
        {
            return Err(ConnectError::OtherKind {
                found: identity.kind,
                wanted,
            });
        }
        tracing::info!(
            engine.kind = %identity.kind,
            engine.version = %identity.version,
            engine.endpoint = %identity.endpoint,
            "container engine found"
        );
        match DockerEngine::new(connection, &self.finder.host) {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(error) => {
                let reason = ConnectError::Unusable(error.to_string());
                self.unusable.get_or_insert(error);
                Err(reason)
            }
        }
    }

    /// Podman's service, started for this bridge.
    pub(super) async fn service(
        &mut self,
        found: &mut Found,
        tell: Tell<'_>,
    ) -> Option<Arc<dyn Engine>> {
        let host = &self.finder.host;
        let program = host.find_program("podman");
        if program.is_none() && self.finder.settings.kind.is_none() {
            return None;
        }
        if let Some(problem) = host.runtime_dir().problem {
            self.attempt("the user's runtime folder", ConnectError::Unusable(problem));
        }
        let Some(program) = program else {
            let problem = "not on the search path".to_owned();
            self.attempt("the podman program", ConnectError::Unusable(problem));
            return None;
        };
        if cfg!(not(target_os = "linux")) {
            return None;
        }
        tell("starting podman");
        let service = match Service::start(&program, host).await {
            Ok(service) => service,
            Err(problem) => {
                let problem = hints::diagnosed(problem, host);
                self.attempt("podman system service", ConnectError::Unusable(problem));
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
    pub(super) async fn machine(
        &mut self,
        found: &mut Found,
        tell: Tell<'_>,
    ) -> Option<Arc<dyn Engine>> {
        let host = &self.finder.host;
        let program = host.find_program("podman")?;
        let machine = match Machine::find(&program, host).await {
            Ok(machine) => machine?,
            Err(problem) => {
                self.attempt("podman machine", ConnectError::Unusable(problem));
                return None;
            }
        };
        if !machine.running {
            tell(&format!("starting podman machine {}", machine.name));
            if let Err(problem) = machine.start().await {
                self.attempt("podman machine", ConnectError::Unusable(problem));
                return None;
            }
        }
        let address = Address::Unix(machine.socket.clone());
        let origin = format!("podman machine {}", machine.name);
        let engine = match connect(&address, &origin).await {
            Ok(connection) => self.accept(connection),
            Err(reason) => {
                let socket = machine.socket.display();
                Err(ConnectError::Unusable(format!("{socket}: {reason}")))
            }
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
            tokio::spawn(idle::stop_when_idle(
                machine.clone(),
                engine.clone(),
                usage,
                idle,
            ))
        });
        StartedMachine { machine, watch }
    }

    fn attempt(&mut self, what: &str, reason: ConnectError) {
        self.attempts.push(Attempt {
            kind: Some(EngineKind::Podman),
            what: what.to_owned(),
            origin: None,
            reason,
        });
    }

    /// The error that lists every attempt.
    pub(super) fn failed(self, explicit: Option<String>) -> Error {
        if let Some(error) = self.unusable {
            return error;
        }
        let start = match explicit {
            Some(origin) => format!("Start it, or correct {origin}"),
            None => {
                hints::way_to_start(&self.finder.host, self.finder.settings.kind, &self.attempts)
            }
        };
        Error::NotFound(Attempts {
            tried: self.attempts,
            start,
        })
    }
}
