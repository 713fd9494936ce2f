//! An engine that speaks Docker's API: docker itself, or podman in its dialect.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error as ApiError;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, ImportImageOptions, ListContainersOptions,
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
    WaitContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_util::io::ReaderStream;

use super::connect::{Connection, deepest};
use super::hardening::{Ceiling, Dialect, create_body};
use super::surroundings::{Surroundings, reason};
use super::{
    Attached, ContainerId, ContainerSpec, Created, Engine, EngineReport, Error, Exit, Identity,
    ImageFacts, Output, Owner, inspect, profile, report, seccomp,
};
use crate::settings::EngineKind;

/// For questions that an engine answers from memory.
const QUESTION: Duration = Duration::from_secs(20);
/// For acts that touch disks, cgroups and runtimes on a slow or busy machine.
const ACT: Duration = Duration::from_secs(60);
/// For a load without any sign of progress: unpacking goes on after the last byte was sent.
const LOAD: Duration = Duration::from_secs(600);
/// How long after the news of a removal the guest's status may come.
const LATE: Duration = Duration::from_millis(200);
/// What is said of an end whose status nobody knows.
const UNKNOWN: Exit = Exit {
    code: -1,
    out_of_memory: false,
};
/// How often a load's progress is told.
const TELL: Duration = Duration::from_millis(100);
/// Processes of the guests' user together, where podman must be told a number: it lowers its own limit below what it then
/// asks for. The limit of each guest is its cgroup's.
const PROCESSES: u64 = 16 << 10;
/// How often a list that cannot be read is asked for again.
const LIST_TRIES: u32 = 10;
/// How often a removal that is refused is asked for again.
const REMOVE_TRIES: u32 = 30;
/// How long to wait in between.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Size of the pieces in which an archive is sent.
const PIECE_BYTES: usize = 256 << 10;

/// An engine behind Docker's API.
pub(super) struct ApiEngine {
    identity: Identity,
    client: Docker,
    report: OnceCell<EngineReport>,
    /// The user whose socket it is, where it is on this machine.
    owner: Option<u32>,
    ceiling: Ceiling,
    seccomp: Seccomp,
}

/// How the profile gets to the engine.
enum Seccomp {
    /// As text.
    Text(String),
    /// As a file on its machine; `chosen` is the first place that it may be able to read.
    File {
        text: String,
        places: Vec<PathBuf>,
        chosen: AtomicUsize,
        uid: u32,
    },
}

impl ApiEngine {
    /// An engine that has just answered.
    pub(super) fn new(connection: Connection, surroundings: &Surroundings) -> Result<Self, Error> {
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
                places: profile::places(surroundings),
                chosen: AtomicUsize::new(0),
                uid: surroundings.uid,
            },
        };
        let owner = socket
            .as_ref()
            .and_then(|path| path.metadata().ok())
            .map(|facts| facts.uid());
        Ok(Self {
            ceiling: ceiling(owner),
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

    /// With the profile in the first place where the engine finds it.
    async fn create_with_file(
        &self,
        spec: &ContainerSpec,
        text: &str,
        places: &[PathBuf],
        chosen: &AtomicUsize,
        uid: u32,
    ) -> Result<ContainerId, Error> {
        let mut refusal = None;
        for (index, place) in places
            .iter()
            .enumerate()
            .skip(chosen.load(Ordering::Relaxed))
        {
            let file = match profile::ensure(place, uid, text) {
                Ok(file) => file.display().to_string(),
                Err(reason) => {
                    refusal.get_or_insert(Error::SeccompUnwritable {
                        places: joined(places),
                        reason,
                    });
                    continue;
                }
            };
            match self.create_with(spec, &file).await {
                Err(Error::Refused { message, .. }) if message.contains(&file) => {
                    refusal = Some(Error::SeccompUnreadable {
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
        Err(refusal.unwrap_or_else(|| Error::SeccompUnwritable {
            places: joined(places),
            reason: "there is no place for it".to_owned(),
        }))
    }

    async fn labelled(&self, label: String) -> Result<Vec<ContainerSummary>, Error> {
        let filters = HashMap::from([("label".to_owned(), vec![label])]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let mut tries = 0;
        loop {
            let list = self.client.list_containers(Some(options.clone()));
            match self.within(QUESTION, "list containers", list).await {
                // Podman names states in passing that Docker's API does not have; one such hides the whole list.
                Err(Error::Nonsense { .. }) if tries < LIST_TRIES => tries += 1,
                result => return result,
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Removes every container of one bridge.
    pub(super) async fn remove_all_of(&self, instance: &str) -> Result<(), Error> {
        for container in self.labelled(Owner::instance_label(instance)).await? {
            if let Some(id) = container.id {
                self.remove_by_name(&id).await?;
            }
        }
        Ok(())
    }

    async fn remove_by_name(&self, id: &str) -> Result<(), Error> {
        let act = "remove the guest's container";
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let mut tries = 0;
        loop {
            let remove = self.client.remove_container(id, Some(options.clone()));
            match self.within(ACT, act, remove).await {
                Err(Error::Refused { status: 404, .. }) => return Ok(()),
                // It is on its way out by itself; gone is when the wait says so.
                Err(Error::Refused { status: 409, .. }) => {
                    return self.until_removed(id, act).await;
                }
                // Podman cannot remove what has just ended by itself; a little later it can, or it is gone.
                Err(Error::Refused { .. }) if tries < REMOVE_TRIES => tries += 1,
                result => return result,
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// The status that the engine gives when `condition` is met.
    async fn wait_until(&self, id: &ContainerId, condition: &str) -> Result<Exit, Error> {
        let options = WaitContainerOptionsBuilder::default()
            .condition(condition)
            .build();
        let mut waiting = self.client.wait_container(&id.0, Some(options)).boxed();
        let act = "wait for the guest's end";
        match waiting.next().await {
            Some(Ok(end)) => Ok(Exit {
                code: end.status_code,
                out_of_memory: false,
            }),
            Some(Err(ApiError::DockerContainerWaitError { code, .. })) => Ok(Exit {
                code,
                out_of_memory: false,
            }),
            Some(Err(ApiError::DockerResponseServerError {
                status_code: 404, ..
            })) => Ok(UNKNOWN),
            Some(Err(error)) => Err(self.failed(act, error)),
            None => Err(Error::Gone {
                engine: self.identity.kind,
                endpoint: self.identity.endpoint.clone(),
                act,
                reason: "connection closed".to_owned(),
            }),
        }
    }

    async fn until_removed(&self, id: &str, act: &'static str) -> Result<(), Error> {
        let options = WaitContainerOptionsBuilder::default()
            .condition("removed")
            .build();
        let mut waiting = self.client.wait_container(id, Some(options)).boxed();
        let wait = async {
            match waiting.next().await {
                Some(Err(ApiError::DockerContainerWaitError { .. }) | Ok(_)) | None => Ok(()),
                Some(Err(error)) => Err(error),
            }
        };
        match self.within(ACT, act, wait).await {
            Err(Error::Refused { status: 404, .. }) => Ok(()),
            result => result,
        }
    }
}

#[async_trait]
impl Engine for ApiEngine {
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
            Err(Error::Refused { status: 404, .. }) => return Ok(None),
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

    async fn load_image(&self, archive: &Path, sent: &(dyn Fn(u64) + Sync)) -> Result<(), Error> {
        let act = "load the guest image";
        let unreadable = |error: &std::io::Error| Error::Archive {
            path: archive.display().to_string(),
            reason: reason(error),
        };
        let file = tokio::fs::File::open(archive)
            .await
            .map_err(|error| unreadable(&error))?;
        let count = std::sync::Arc::new(AtomicU64::new(0));
        let broken = std::sync::Arc::new(Mutex::new(None));
        let pieces = {
            let (count, broken) = (count.clone(), broken.clone());
            ReaderStream::with_capacity(file, PIECE_BYTES).map(move |piece| {
                match &piece {
                    Ok(bytes) => {
                        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    }
                    Err(error) => {
                        if let Ok(mut broken) = broken.lock() {
                            *broken = Some(reason(error));
                        }
                    }
                }
                piece
            })
        };
        let answers = self
            .client
            .import_image_stream(ImportImageOptions::default(), pieces, None);
        let load = answers.try_for_each(|_| async { Ok(()) });
        let mut load = std::pin::pin!(self.within(LOAD, act, load));
        let mut ticks = tokio::time::interval(TELL);
        let mut told = None;
        let mut tell = || {
            let now = count.load(Ordering::Relaxed);
            if told.replace(now) != Some(now) {
                sent(now);
            }
        };
        let result = loop {
            tokio::select! {
                result = &mut load => break result,
                _ = ticks.tick() => tell(),
            }
        };
        tell();
        // A file that cannot be read to its end looks to the engine like a client that went away.
        let broken = broken.lock().ok().and_then(|mut broken| broken.take());
        match broken {
            Some(reason) => Err(Error::Archive {
                path: archive.display().to_string(),
                reason,
            }),
            None => result,
        }
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
        let ask = self.client.inspect_container(&id.0, None);
        let found = self
            .within(QUESTION, "describe the guest's container", ask)
            .await?;
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

    async fn wait(&self, id: &ContainerId) -> Result<Exit, Error> {
        let exit = self.wait_until(id, "next-exit");
        if self.identity.kind == EngineKind::Docker {
            return exit.await;
        }
        // Podman's `next-exit` never comes for a guest that had ended before it was asked, and its `removed` always comes
        // but says 0 of every status.
        let removed = self.wait_until(id, "removed");
        match select(pin!(exit), pin!(removed)).await {
            Either::Left((exit, _)) => exit,
            Either::Right((Ok(_), exit)) => timeout(LATE, exit).await.unwrap_or(Ok(UNKNOWN)),
            Either::Right((Err(error), _)) => Err(error),
        }
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), Error> {
        self.remove_by_name(&id.0).await
    }

    async fn running(&self) -> Result<usize, Error> {
        let list = self.client.list_containers(None::<ListContainersOptions>);
        let found = self.within(QUESTION, "list containers", list).await?;
        Ok(found.len())
    }

    async fn reap(&self, owner: &Owner) -> Result<usize, Error> {
        let found = self.labelled(owner.filter()).await?;
        let mut removed = 0;
        for container in found {
            let labels = container.labels.unwrap_or_default();
            if let Some(id) = container.id
                && owner.outlived(|name| labels.get(name).map(String::as_str))
            {
                tracing::info!(container.id = %id, "removing a container that lost its owner");
                self.remove_by_name(&id).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn failed(identity: &Identity, act: &'static str, error: ApiError) -> Error {
    let engine = identity.kind;
    match error {
        ApiError::DockerResponseServerError {
            status_code,
            message,
        } => Error::Refused {
            engine,
            act,
            status: status_code,
            message: message.trim().to_owned(),
        },
        ApiError::DockerStreamError { error } => Error::Refused {
            engine,
            act,
            status: 0,
            message: error.trim().to_owned(),
        },
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
            reason: deepest(&other),
        },
    }
}

/// What a process of the engine may have at most. Only an engine with root's rights on this machine is in question: it
/// may lack the right to raise limits, as in containers; one without root's rights asks for no more than it has.
fn ceiling(owner: Option<u32>) -> Ceiling {
    use rustix::process::{Resource, getrlimit};
    if owner.is_none() || !cfg!(target_os = "linux") {
        return Ceiling::default();
    }
    let processes = getrlimit(Resource::Nproc).maximum.unwrap_or(PROCESSES);
    Ceiling {
        open_files: getrlimit(Resource::Nofile).maximum,
        processes: (owner == Some(0)).then(|| processes.min(PROCESSES)),
    }
}

fn joined(places: &[PathBuf]) -> String {
    let places: Vec<String> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    places.join(", ")
}
