//! Makes a lock with today's packages from the package index of a Debian suite.
//!
//! apt fetches the index and checks its signature against Debian's keyring. It runs in a folder of
//! its own and leaves the lists and sources of the machine alone.

mod index;
mod release;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::architecture::Architecture;
use crate::inputs::{Sources, configured_mirrors};
use crate::lock::{self, Input, Lock};
use crate::progress::Progress;

/// Debian's keyring, under the names that the package `debian-archive-keyring` has used for it.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];

/// Why a lock cannot be refreshed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no Debian mirror in apt's configuration: name one with --mirror or GUEST_IMAGE_MIRROR"
    )]
    NoMirror,
    #[error("invalid mirror {0:?}: use an http or https URL without spaces")]
    BadMirror(String),
    #[error("cannot use the scratch folder {path:?} (TMPDIR chooses another)")]
    Scratch { path: PathBuf, source: io::Error },
    #[error("cannot start apt-get, which fetches and verifies the package index")]
    NoApt(#[source] io::Error),
    #[error("apt-get could not fetch and verify the index of {suite}:\n{output}")]
    Apt { suite: String, output: String },
    #[error("invalid package index: {0}")]
    Index(String),
    #[error(
        "{suite} no longer has {}: put packages that replace them into the lock by hand",
        .names.join(", ")
    )]
    Removed { suite: String, names: Vec<String> },
    #[error(transparent)]
    Lock(#[from] lock::Error),
}

/// A lock with the same packages as `lock`, in the versions that its suite has now, and with the
/// same wheels.
pub fn refresh(lock: &Lock, sources: &Sources, progress: &dyn Progress) -> Result<Lock, Error> {
    let mirror = match &sources.mirror {
        Some(mirror) => mirror.clone(),
        None => configured_mirrors()
            .into_iter()
            .next()
            .ok_or(Error::NoMirror)?,
    };
    let architecture = lock.architecture()?;
    progress.report("fetching the package index", 0, None);
    let apt = Apt::new(&mirror, &lock.suite, architecture)?;
    apt.update(progress)?;
    let wanted: BTreeSet<_> = (lock.inputs.iter().chain(&lock.libraries))
        .filter(|input| matches!(input, Input::Deb { .. }))
        .map(|input| input.name().to_owned())
        .collect();
    let mut found = index::find(&apt.list("_Packages")?, &wanted)?;
    let missing: Vec<_> = wanted
        .into_iter()
        .filter(|name| !found.contains_key(name))
        .collect();
    if !missing.is_empty() {
        return Err(Error::Removed {
            suite: lock.suite.clone(),
            names: missing,
        });
    }
    let release = fs::read_to_string(apt.list("_InRelease")?).map_err(apt.failed())?;
    let snapshot = release::snapshot_time(&release)
        .ok_or_else(|| Error::Index("its Release file has no valid date".to_owned()))?;
    let mut renewed = |list: &[Input]| -> Vec<Input> {
        let renew = |input: &Input| match input {
            Input::Deb { name, .. } => found.remove(name),
            Input::Wheel { .. } => Some(input.clone()),
        };
        list.iter().filter_map(renew).collect()
    };
    let (inputs, libraries) = (renewed(&lock.inputs), renewed(&lock.libraries));
    Ok(lock.with_inputs(snapshot, inputs, libraries)?)
}

/// apt, with a folder of its own for all its state.
struct Apt {
    folder: tempfile::TempDir,
    suite: String,
    architecture: Architecture,
}

impl Apt {
    fn new(mirror: &str, suite: &str, architecture: Architecture) -> Result<Self, Error> {
        let plain = mirror.bytes().all(|byte| byte.is_ascii_graphic());
        if !plain || !(mirror.starts_with("http://") || mirror.starts_with("https://")) {
            return Err(Error::BadMirror(mirror.to_owned()));
        }
        let folder = tempfile::tempdir().map_err(|source| Error::Scratch {
            path: std::env::temp_dir(),
            source,
        })?;
        let apt = Self {
            folder,
            suite: suite.to_owned(),
            architecture,
        };
        // As root, apt downloads as another user, who needs access.
        open_to_all(apt.folder.path()).map_err(apt.failed())?;
        for name in ["lists/partial", "cache/archives/partial", "parts"] {
            fs::create_dir_all(apt.path(name)).map_err(apt.failed())?;
        }
        let keyring = KEYRINGS.iter().find(|path| Path::new(path).exists());
        let signed_by = keyring.map_or(String::new(), |path| format!("Signed-By: {path}\n"));
        let source =
            format!("Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\n{signed_by}");
        fs::write(apt.path("debian.sources"), source).map_err(apt.failed())?;
        fs::write(apt.path("status"), "").map_err(apt.failed())?;
        Ok(apt)
    }

    /// Fetches and verifies the index. An expired one is accepted with a warning, as it is signed
    /// nevertheless and a mirror that lags behind must not stop the user.
    fn update(&self, progress: &dyn Progress) -> Result<(), Error> {
        let Some(output) = self.try_update(true)? else {
            return Ok(());
        };
        let Some(expired) = output.lines().find(|line| line.contains(" is expired ")) else {
            return Err(self.update_failed(output));
        };
        progress.warn(&format!(
            "the mirror lags behind; its index is used although it has expired: {expired}"
        ));
        match self.try_update(false)? {
            None => Ok(()),
            Some(output) => Err(self.update_failed(output)),
        }
    }

    /// Runs `apt-get update`; returns its output if it failed.
    fn try_update(&self, valid_until: bool) -> Result<Option<String>, Error> {
        let path = |name| self.path(name).display().to_string();
        let architecture = self.architecture.name();
        let settings = [
            format!("Dir::State={}", path("")),
            format!("Dir::State::lists={}", path("lists")),
            format!("Dir::State::status={}", path("status")),
            format!("Dir::Cache={}", path("cache")),
            format!("Dir::Etc::sourcelist={}", path("debian.sources")),
            format!("Dir::Etc::sourceparts={}", path("parts")),
            format!("APT::Architecture={architecture}"),
            format!("APT::Architectures={architecture}"),
            format!("Acquire::Check-Valid-Until={valid_until}"),
            "Acquire::Check-Date=true".to_owned(),
            "Acquire::AllowInsecureRepositories=false".to_owned(),
            "Acquire::AllowWeakRepositories=false".to_owned(),
            "Acquire::AllowDowngradeToInsecureRepositories=false".to_owned(),
            "Acquire::GzipIndexes=false".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=2".to_owned(),
            "Acquire::http::Timeout=30".to_owned(),
            "Acquire::https::Timeout=30".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
            "APT::Update::Error-Mode=any".to_owned(),
        ];
        let output = Command::new("apt-get")
            .arg("update")
            .args(settings.iter().flat_map(|setting| ["-o", setting]))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(Error::NoApt)?;
        if output.status.success() {
            return Ok(None);
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text += &String::from_utf8_lossy(&output.stderr);
        Ok(Some(text.trim().to_owned()))
    }

    /// The path of the list with this ending among those that apt accepted.
    fn list(&self, ending: &str) -> Result<PathBuf, Error> {
        let entries = fs::read_dir(self.path("lists")).map_err(self.failed())?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths
            .find(|path| path.to_string_lossy().ends_with(ending))
            .ok_or_else(|| {
                Error::Index(format!(
                    "apt kept no file {}",
                    ending.trim_start_matches('_')
                ))
            })
    }

    fn update_failed(&self, output: String) -> Error {
        Error::Apt {
            suite: self.suite.clone(),
            output,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.folder.path().to_owned();
        move |source| Error::Scratch {
            path: path.clone(),
            source,
        }
    }
}

fn open_to_all(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
