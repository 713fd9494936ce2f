//! An engine that speaks Docker's API: docker itself, or podman in its dialect.

use std::fs::File;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error as ApiError;
use bollard::query_parameters::{AttachContainerOptionsBuilder, StartContainerOptions};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    Attached, ContainerId, ContainerSpec, Created, Engine, EngineReport, Error, Exit, Identity,
    ImageFacts, Output, Owner, seccomp,
};
use bridge_common::host::HostEnv;
use bridge_settings::EngineKind;

/// The time limit of requests that an engine answers from memory.
const QUESTION: Duration = Duration::from_secs(20);
/// The time limit of requests that touch disks, cgroups and runtimes, on a slow or busy machine.
const ACT: Duration = Duration::from_secs(60);

mod address;
mod candidates;
mod cause;
mod connect;
mod contexts;
mod ending;
mod hardening;
mod inspect;
mod list;
mod load;
mod ping;
mod podman;
mod profile;
mod rejection;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use address::Address;
pub(crate) use candidates::{Candidate, candidates};
pub(crate) use connect::{Connection, connect};
pub(crate) use podman::{Machine, Service};

use cause::innermost;
use hardening::{Ceiling, Dialect, create_body};

/// An engine behind Docker's API.
pub(crate) struct DockerEngine {
    identity: Identity,
    client: Docker,
    report: OnceCell<EngineReport>,
    /// The user who owns the engine's socket, where that is on this machine.
    owner: Option<u32>,
    ceiling: Ceiling,
    seccomp: Seccomp,
}

/// How the seccomp profile reaches the engine.
enum Seccomp {
    /// The profile is sent as text.
    Text(String),
    /// The engine reads a file on its machine; `chosen` is the first place that it may be able to
    /// read.
    File {
        text: String,
        places: Vec<PathBuf>,
        chosen: AtomicUsize,
        uid: u32,
    },
}

impl DockerEngine {
    /// The engine behind a connection that was just made.
    pub(crate) fn new(connection: Connection, host: &HostEnv) -> Result<Self, Error> {
        use std::os::unix::fs::MetadataExt;
        let Connection {
            identity,
            client,
            socket,
        } = connection;
        let text = seccomp::profile(&identity.architecture)
            .ok_or_else(|| Error::Architecture {
                engine: identity.kind,
                endpoint: identity.endpoint.clone(),
                architecture: identity.architecture.clone(),
            })?
            .to_string();
        let seccomp = match identity.kind {
            EngineKind::Docker => Seccomp::Text(text),
            EngineKind::Podman => Seccomp::File {
                text,
                places: profile::places(host),
                chosen: AtomicUsize::new(0),
                uid: host.uid(),
            },
        };
        let owner = socket
            .as_ref()
            .and_then(|path| path.metadata().ok())
            .map(|facts| facts.uid());
        Ok(Self {
            ceiling: Ceiling::of_engine(owner),
            report: OnceCell::new(),
            identity,
            client,
            owner,
            seccomp,
        })
    }

    async fn within<T>(
        &self,
        after: Duration,
        act: &'static str,
        call: impl Future<Output = Result<T, ApiError>> + Send,
    ) -> Result<T, Error> {
        match timeout(after, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failed(act, error)),
            Err(_) => Err(Error::Deadline {
                engine: self.identity.kind,
                endpoint: self.identity.endpoint.clone(),
                act,
                after,
            }),
        }
    }

    fn failed(&self, act: &'static str, error: ApiError) -> Error {
        failed(&self.identity, act, error)
    }

    async fn create_with(&self, spec: &ContainerSpec, seccomp: &str) -> Result<ContainerId, Error> {
        let dialect = Dialect {
            kind: self.identity.kind,
            seccomp,
            ceiling: self.ceiling,
        };
        let body = create_body(spec, &dialect);
        let create = self.client.create_container(None, body);
        let created = self
            .within(ACT, "create the guest's container", create)
            .await?;
        Ok(ContainerId(created.id))
    }

    /// Creates a container with the profile in the first place where the engine can read it.
    async fn create_with_file(
        &self,
        spec: &ContainerSpec,
        text: &str,
        places: &[PathBuf],
        chosen: &AtomicUsize,
        uid: u32,
    ) -> Result<ContainerId, Error> {
        let mut failure = None;
        for (index, place) in places
            .iter()
            .enumerate()
            .skip(chosen.load(Ordering::Relaxed))
        {
            let file = match profile::ensure(place, uid, text) {
                Ok(file) => file.display().to_string(),
                Err(reason) => {
                    failure.get_or_insert(Error::SeccompUnwritable {
                        places: joined(places),
                        reason,
                    });
                    continue;
                }
            };
            match self.create_with(spec, &file).await {
                // The status is that of every failure to create; an engine that cannot read the
                // file names it.
                Err(Error::Rejected { message, .. }) if message.contains(&file) => {
                    failure = Some(Error::SeccompUnreadable {
                        endpoint: self.identity.endpoint.clone(),
                        path: file,
                        message,
                    });
                }
                result => {
                    if result.is_ok() {
                        chosen.store(index, Ordering::Relaxed);
                    }
                    return result;
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::SeccompUnwritable {
            places: joined(places),
            reason: "no folder is known".to_owned(),
        }))
    }
}

#[async_trait]
impl Engine for DockerEngine {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn report(&self) -> Result<EngineReport, Error> {
        let ask = || async {
            let info = self
                .within(QUESTION, "describe itself", self.client.info())
                .await?;
            Ok(report::read(&self.identity, &info, self.owner))
        };
        self.report.get_or_try_init(ask).await.cloned()
    }

    async fn ping(&self) -> Result<(), Error> {
        self.within(QUESTION, "answer a ping", self.client.ping())
            .await
            .map(drop)
    }

    async fn image(&self, id: &str) -> Result<Option<ImageFacts>, Error> {
        let inspect = self.client.inspect_image(id);
        let found = match self
            .within(QUESTION, "describe the guest image", inspect)
            .await
        {
            Err(Error::Rejected { status: 404, .. }) => return Ok(None),
            result => result?,
        };
        Ok(Some(ImageFacts {
            id: found.id.unwrap_or_default(),
            diff_ids: found
                .root_fs
                .and_then(|root| root.layers)
                .unwrap_or_default(),
            architecture: found.architecture.unwrap_or_default(),
            os: found.os.unwrap_or_default(),
            manifests: found
                .repo_digests
                .iter()
                .flatten()
                .filter_map(|name| name.rsplit_once('@'))
                .map(|(_, digest)| digest.to_owned())
                .collect(),
            environment: found
                .config
                .and_then(|config| config.env)
                .unwrap_or_default(),
        }))
    }

    async fn load_image(&self, archive: File, sent: &(dyn Fn(u64) + Sync)) -> Result<(), Error> {
        self.load(archive, sent).await
    }

    async fn export_image(
        &self,
        id: &str,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let identity = self.identity.clone();
        let pieces = self.client.export_image(id);
        let pieces =
            pieces.map_err(move |error| failed(&identity, "export the guest image", error));
        Ok(pieces.boxed())
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId, Error> {
        match &self.seccomp {
            Seccomp::Text(text) => self.create_with(spec, text).await,
            Seccomp::File {
                text,
                places,
                chosen,
                uid,
            } => {
                self.create_with_file(spec, text, places, chosen, *uid)
                    .await
            }
        }
    }

    async fn inspect(&self, id: &ContainerId, spec: &ContainerSpec) -> Result<Created, Error> {
        let found = self.described(id).await?;
        Ok(inspect::compare(&found, spec))
    }

    async fn attach(&self, id: &ContainerId) -> Result<Attached, Error> {
        let options = AttachContainerOptionsBuilder::default()
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let act = "attach to the guest's container";
        let attach = self.client.attach_container(&id.0, Some(options));
        let ends = self.within(ACT, act, attach).await?;
        let identity = self.identity.clone();
        let output = ends.output.map(move |piece| match piece {
            Ok(LogOutput::StdOut { message }) => Ok(Output::Stdout(message)),
            Ok(LogOutput::StdErr { message }) => Ok(Output::Stderr(message)),
            Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. }) => Err(Error::Nonsense {
                engine: identity.kind,
                act: "hand over the guest's output",
                reason: "its stream is not framed".to_owned(),
            }),
            Err(error) => Err(failed(&identity, "hand over the guest's output", error)),
        });
        Ok(Attached {
            input: ends.input,
            output: output.boxed(),
        })
    }

    async fn start(&self, id: &ContainerId) -> Result<(), Error> {
        let start = self
            .client
            .start_container(&id.0, None::<StartContainerOptions>);
        self.within(ACT, "start the guest", start).await
    }

    async fn wait(&self, id: &ContainerId, output_ended: CancellationToken) -> Result<Exit, Error> {
        self.wait_for_end(id, output_ended).await
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), Error> {
        self.remove_by_name(&id.0).await
    }

    async fn running(&self) -> Result<usize, Error> {
        Ok(self.listed(None).await?.len())
    }

    async fn reap(&self, owner: &Owner) -> Result<usize, Error> {
        self.remove_ownerless(owner).await
    }
}

fn failed(identity: &Identity, act: &'static str, error: ApiError) -> Error {
    let engine = identity.kind;
    match error {
        ApiError::DockerResponseServerError {
            status_code,
            message,
        } => rejected(engine, act, status_code, &message),
        ApiError::DockerStreamError { error } => rejected(engine, act, 0, &error),
        ApiError::JsonDataError { .. }
        | ApiError::JsonSerdeError { .. }
        | ApiError::StrParseError { .. } => Error::Nonsense {
            engine,
            act,
            reason: error.to_string(),
        },
        other => Error::Gone {
            engine,
            endpoint: identity.endpoint.clone(),
            act,
            reason: innermost(&other).to_string(),
        },
    }
}

fn rejected(engine: EngineKind, act: &'static str, status: u16, message: &str) -> Error {
    Error::Rejected {
        engine,
        act,
        status,
        cause: rejection::classify(message),
        message: message.trim().to_owned(),
    }
}

fn joined(places: &[PathBuf]) -> String {
    let places: Vec<String> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    places.join(", ")
}
