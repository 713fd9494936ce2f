//! The container engines that tests run on: shared ones, started by `engines/with.sh`, and private
//! ones for tests that break them.

use std::env;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{ImportImageOptions, RemoveImageOptions};
use futures_util::StreamExt;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::home::User;
use crate::process;

mod containers;

/// The user as whom `engines/podman-rootless.sh` runs when root starts it.
const ROOTLESS_USER: &str = "mcb-test";

/// The engines that the suite runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Docker with its daemon run by root.
    Docker,
    /// Podman run by root.
    PodmanRootful,
    /// Podman as an ordinary user.
    PodmanRootless,
}

impl Kind {
    /// The engine's script under `engines/`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::PodmanRootful => "podman-rootful",
            Self::PodmanRootless => "podman-rootless",
        }
    }

    fn variable(self) -> String {
        format!(
            "TEST_ENGINE_{}",
            self.name().to_uppercase().replace('-', "_")
        )
    }
}

/// An engine that answers.
pub struct EngineUnderTest {
    /// Kind of the engine.
    pub kind: Kind,
    /// Address, as `unix://...`.
    pub address: String,
    /// The engine's folder, if known; it holds the configuration of podman's own command line.
    pub folder: Option<PathBuf>,
    /// The user who runs the bridge against this engine, if not the user of this process.
    pub user: Option<User>,
    /// API client for assertions.
    pub client: Docker,
    runtime: Runtime,
    own: Option<TempDir>,
    test: Option<String>,
}

/// Runs a test on the shared engine of a kind. Without one, the test fails in CI, and is skipped
/// elsewhere with a printed line.
///
/// # Panics
/// In CI, if there is none.
pub fn with_shared(kind: Kind, module: &str, test: impl FnOnce(&EngineUnderTest)) {
    if let Some(mut engine) = EngineUnderTest::shared(kind) {
        let (_crate_name, path) = module.split_once("::").unwrap_or(("", module));
        engine.test = Some(format!("{path}::{}", kind.name().replace('-', "_")));
        engine.ensure_image();
        test(&engine);
    }
}

impl EngineUnderTest {
    /// The shared engine of a kind.
    ///
    /// # Panics
    /// In CI, if there is none.
    #[must_use]
    pub fn shared(kind: Kind) -> Option<Self> {
        let Ok(address) = env::var(kind.variable()) else {
            assert!(
                env::var_os("CI").is_none() || env::var_os("TEST_ENGINES_PARTIAL").is_some(),
                "{} is not set, but CI tests every engine: run `make test`, which starts them",
                kind.variable()
            );
            eprintln_skip(kind);
            return None;
        };
        let folder = env::var_os(format!("{}_DIR", kind.variable())).map(PathBuf::from);
        Some(Self::at(kind, address, folder, None))
    }

    /// Starts an engine for this test alone, which ends when the value is dropped. `None` if
    /// engines of this kind are not tested.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn private(kind: Kind) -> Option<Self> {
        let shared = Self::shared(kind)?;
        if env::var_os("TEST_ENGINE_EXCLUSIVE").is_some() {
            // The virtual machine is thrown away afterwards and runs one test at a time, so its
            // shared engine can serve as a private one.
            shared.remove_image();
            return Some(shared);
        }
        let own = tempfile::Builder::new()
            .prefix("mcb.")
            .tempdir()
            .expect("a temporary folder can be made");
        open_to_all(own.path());
        let folder = own.path().join("e");
        let status = script(kind)
            .arg("start")
            .arg(&folder)
            .status()
            .expect("the engine's script can be run");
        assert!(status.success(), "a private {} did not start", kind.name());
        let written = std::fs::read_to_string(folder.join("env"))
            .expect("the script wrote where the engine answers");
        let address = written
            .lines()
            .find_map(|line| line.strip_prefix("TEST_ENGINE="))
            .expect("an address is in it");
        Some(Self::at(kind, address.to_owned(), Some(folder), Some(own)))
    }

    fn at(kind: Kind, address: String, folder: Option<PathBuf>, own: Option<TempDir>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let user = (kind == Kind::PodmanRootless && is_root()).then(|| {
            User::named(ROOTLESS_USER).expect("engines/podman-rootless.sh made the user it runs as")
        });
        let client = runtime.block_on(async {
            let client =
                Docker::connect_with_host(&address).expect("an engine's address can be parsed");
            client
                .negotiate_version()
                .await
                .expect("the engine answers")
        });
        Self {
            kind,
            address,
            folder,
            user,
            client,
            runtime,
            own,
            test: None,
        }
    }

    /// Runs a future to its end.
    pub fn block<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Runs the rest of this test in another process with `DOCKER_HOST` set to this engine:
    /// testcontainers finds engines by that variable alone, and a running process must not change
    /// its environment.
    ///
    /// # Panics
    /// If the test fails there, or was not made by `each_engine!`.
    pub fn with_testcontainers<F: Future<Output = ()>>(&self, rest: impl FnOnce() -> F) {
        if env::var("DOCKER_HOST").as_deref() == Ok(&self.address) {
            return self.block(rest());
        }
        let test = self.test.as_ref().expect("the test is one of each_engine!");
        let own = env::current_exe().expect("a running test has a path");
        let status = Command::new(own)
            .args([test, "--exact", "--nocapture"])
            .env("DOCKER_HOST", &self.address)
            .status()
            .expect("a test can be run again");
        assert!(
            status.success(),
            "the test failed in the process with DOCKER_HOST"
        );
    }

    /// The environment variables that lead a bridge to this engine.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let host = if self.kind == Kind::Docker {
            "DOCKER_HOST"
        } else {
            "CONTAINER_HOST"
        };
        vec![(host.to_owned(), self.address.clone())]
    }

    /// Whether the engine enforces limits: rootless podman cannot on cgroup v1.
    #[must_use]
    pub fn enforces_limits(&self) -> bool {
        self.kind != Kind::PodmanRootless || Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
    }

    /// Kills the processes that serve the engine's API, but not the containers.
    ///
    /// # Panics
    /// If the engine's folder is not known.
    pub fn kill_service(&self) {
        for pid in self.service() {
            process::signal(pid, 9);
        }
    }

    /// The processor time that the processes serving the engine's API have used.
    ///
    /// # Panics
    /// If the engine's folder is not known.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        let service = self.service().into_iter();
        service.filter_map(process::processor_time).sum()
    }

    /// The processes that serve the engine's API; rootless podman serves in a child of the process
    /// that was started.
    fn service(&self) -> Vec<u32> {
        let folder = self
            .folder
            .as_ref()
            .expect("the engine was started by a script");
        let folder = folder.display().to_string();
        process::with_command(&folder)
            .into_iter()
            .filter(|(_, command)| {
                command.contains("system service") || command.starts_with("dockerd")
            })
            .map(|(pid, _)| pid)
            .collect()
    }

    /// Loads the image under test unless the engine has it. Several tests may do so at once, as a
    /// load is idempotent.
    ///
    /// # Panics
    /// If it cannot be loaded.
    pub fn ensure_image(&self) {
        if !self.has_image() {
            self.load(&image_archive());
            assert!(
                self.has_image(),
                "the archive holds a different image than the digests name"
            );
        }
    }

    /// Whether the engine has the image under test.
    #[must_use]
    pub fn has_image(&self) -> bool {
        let digests = image_digests();
        [&digests.config, &digests.manifest]
            .into_iter()
            .any(|id| self.block(self.client.inspect_image(id)).is_ok())
    }

    /// Loads an archive into the engine.
    ///
    /// # Panics
    /// If the engine rejects it.
    pub fn load(&self, archive: &Path) {
        self.block(async {
            let file = tokio::fs::File::open(archive)
                .await
                .expect("the archive can be opened");
            let pieces = tokio_util::io::ReaderStream::with_capacity(file, 1 << 18);
            let mut answers =
                self.client
                    .import_image_stream(ImportImageOptions::default(), pieces, None);
            while let Some(answer) = answers.next().await {
                answer.expect("the engine loads the archive");
            }
        });
    }

    /// Removes the image under test by the ID that the engine knows it by.
    pub fn remove_image(&self) {
        let digests = image_digests();
        for id in [&digests.config, &digests.manifest] {
            let options = RemoveImageOptions {
                force: true,
                ..Default::default()
            };
            let _ = self.block(self.client.remove_image(id, Some(options), None));
        }
    }
}

impl Drop for EngineUnderTest {
    fn drop(&mut self) {
        if self.own.is_some()
            && let Some(folder) = &self.folder
        {
            let _ = script(self.kind).arg("stop").arg(folder).status();
        }
    }
}

fn script(kind: Kind) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("engines/{}.sh", kind.name())))
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711))
        .expect("its mode can be set");
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn eprintln_skip(kind: Kind) {
    eprintln!("SKIPPED: no {} to test on", kind.name());
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The archive of the guest image under test.
///
/// # Panics
/// If `make image` has not been run.
#[must_use]
pub fn image_archive() -> PathBuf {
    let path = env::var_os("TEST_IMAGE_ARCHIVE").map_or_else(
        || {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!(".cache/image/guest-base-{}.tar", architecture()))
        },
        PathBuf::from,
    );
    assert!(
        path.exists(),
        "no guest image at {}: run `make image`",
        path.display()
    );
    path
}

/// The expected digests of the image under test: the committed ones, or those of a refreshed lock.
///
/// # Panics
/// If there are none for this architecture.
#[must_use]
pub fn image_digests() -> guest_image::Digests {
    match image_lock() {
        Some(lock) => {
            guest_image::Digests::read(&lock).expect("the digests beside the lock can be read")
        }
        None => guest_image::committed("base", architecture())
            .expect("digests are committed for this architecture"),
    }
}

/// The lock that is used instead of the built-in one.
#[must_use]
pub fn image_lock() -> Option<PathBuf> {
    env::var_os("TEST_IMAGE_LOCK")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Debian's name of this machine's architecture.
#[must_use]
pub fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    }
}
