//! Gets the files that a lock names: from a folder, the cache, Debian mirrors and a snapshot
//! archive, in this order.
//!
//! Where a file comes from does not matter: its size and SHA-256 must be those in the lock.

mod download;
mod local;
mod mirror;
#[cfg(test)]
mod server;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use download::Downloader;
use local::{from_cache, from_folder, read_checked};
pub(crate) use mirror::configured as configured_mirrors;

use crate::cache;
use crate::lock::{Input, Lock};
use crate::progress::Progress;

/// Simultaneous downloads: easy on mirrors, enough for a fast line.
const PARALLEL: usize = 4;

/// Where inputs may come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A folder with the files, named as in the lock or by their SHA-256.
    pub folder: Option<PathBuf>,
    /// The cache; `None` for a temporary folder.
    pub cache: Option<PathBuf>,
    /// The URL of a Debian mirror; `None` for those in apt's configuration.
    pub mirror: Option<String>,
    /// The URL of a snapshot archive, such as `https://HOST/archive/debian`; `None` for the one in
    /// apt's configuration.
    pub snapshot: Option<String>,
    /// Whether downloads are forbidden.
    pub offline: bool,
}

impl Sources {
    /// The sources named by `GUEST_IMAGE_INPUTS`, `GUEST_IMAGE_MIRROR` and `GUEST_IMAGE_SNAPSHOT`,
    /// and the cache.
    pub fn from_environment() -> Self {
        let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            folder: env::var_os("GUEST_IMAGE_INPUTS")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            cache: Some(cache::cache_dir()),
            mirror: text("GUEST_IMAGE_MIRROR"),
            snapshot: text("GUEST_IMAGE_SNAPSHOT"),
            offline: false,
        }
    }
}

/// Why inputs cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path:?} is not the file in the lock: expected {expected}, found {found}")]
    Mismatch {
        path: PathBuf,
        /// Size and SHA-256 in the lock.
        expected: String,
        /// Size or SHA-256 of the file.
        found: String,
    },
    #[error("cannot read {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write to the cache {path:?} (XDG_CACHE_HOME chooses another)")]
    Cache { path: PathBuf, source: io::Error },
    #[error("{}", unavailable_message(.missing, .tried))]
    Unavailable {
        /// The files, each with the reason.
        missing: Vec<(String, String)>,
        /// The sources that were tried.
        tried: Vec<String>,
    },
}

fn unavailable_message(missing: &[(String, String)], tried: &[String]) -> String {
    let mut message = format!("cannot get {} of the lock's inputs:", missing.len());
    for (file, why) in missing {
        message.extend(["\n  ", file, ": ", why]);
    }
    message += "\nsources tried:";
    for source in tried {
        message.extend(["\n  ", source]);
    }
    message
        + "\n\nMirrors drop files once there are newer ones. What you can do:\n  \
        1. name a snapshot archive: GUEST_IMAGE_SNAPSHOT=https://HOST/archive/debian\n  \
        2. name a folder with the files: --inputs DIR or GUEST_IMAGE_INPUTS\n  \
        3. make a lock with today's packages, build it, and use that image, which is not the committed one:\n     \
        guest-image lock --refresh --out my.json && guest-image build --lock my.json && export MCP_BRIDGE_IMAGE_LOCK=$PWD/my.json"
}

/// Gets the content of all inputs of `lock`, in its order.
pub(crate) fn fetch(
    lock: &Lock,
    sources: &Sources,
    progress: &dyn Progress,
) -> Result<Vec<Vec<u8>>, Error> {
    let mut found = Vec::with_capacity(lock.inputs.len());
    for input in &lock.inputs {
        let mut data = None;
        if let Some(folder) = &sources.folder {
            data = from_folder(folder, input)?;
        }
        if let (None, Some(cache)) = (&data, &sources.cache) {
            data = from_cache(cache, input, progress)?;
        }
        found.push(data);
    }
    let missing: Vec<&Input> = lock
        .inputs
        .iter()
        .zip(&found)
        .filter(|(_, data)| data.is_none())
        .map(|(input, _)| input)
        .collect();
    if !missing.is_empty() {
        let mut fetched = download_missing(lock, &missing, sources, progress)?.into_iter();
        for slot in found.iter_mut().filter(|slot| slot.is_none()) {
            *slot = fetched.next();
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// Downloads the missing inputs to the cache; returns their content.
fn download_missing(
    lock: &Lock,
    missing: &[&Input],
    sources: &Sources,
    progress: &dyn Progress,
) -> Result<Vec<Vec<u8>>, Error> {
    let origins = if sources.offline {
        Vec::new()
    } else {
        origins(lock, sources)
    };
    let scratch = Scratch::new(sources.cache.as_deref())?;
    let downloader = Downloader::new();
    let total: u64 = missing.iter().map(|input| input.size()).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let on_bytes = |bytes| {
        let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        progress.report("downloading packages", done.min(total), Some(total));
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for sender in vec![sender; PARALLEL.min(missing.len())] {
            let (next, origins, scratch, downloader) = (&next, &origins, &scratch, &downloader);
            scope.spawn(move || {
                while let Some(input) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result =
                        from_origins(downloader, input, origins, scratch.path(), &on_bytes);
                    // The receiver outlives this scope.
                    let _ = sender.send((input.sha256(), result));
                }
            });
        }
    });
    let mut results: BTreeMap<_, _> = receiver.into_iter().collect();
    let mut fetched = Vec::new();
    let mut unavailable = Vec::new();
    for input in missing {
        match results.remove(input.sha256()) {
            Some(Ok(data)) => fetched.push(data),
            Some(Err(why)) => unavailable.push((input.file_name(), why)),
            None => unavailable.push((input.file_name(), "its download was aborted".to_owned())),
        }
    }
    if unavailable.is_empty() {
        return Ok(fetched);
    }
    Err(Error::Unavailable {
        missing: unavailable,
        tried: tried(sources, &origins),
    })
}

/// The base URLs to try, in order, for a path that starts with `pool/`.
fn origins(lock: &Lock, sources: &Sources) -> Vec<String> {
    let mut origins = match &sources.mirror {
        Some(mirror) => vec![mirror.trim_end_matches('/').to_owned()],
        None => mirror::configured(),
    };
    let snapshot = sources.snapshot.clone().or_else(snapshot::configured);
    origins.extend(snapshot.map(|archive| snapshot::at(&archive, &lock.snapshot)));
    origins
}

/// Tries one origin after the other; the error has the answer of each.
fn from_origins(
    downloader: &Downloader,
    input: &Input,
    origins: &[String],
    folder: &Path,
    received: &dyn Fn(u64),
) -> Result<Vec<u8>, String> {
    let Some(path) = input.mirror_path() else {
        return Err("wheels are not downloaded; name a folder with them: --inputs DIR".to_owned());
    };
    let file = cache::input_path(folder, input.sha256());
    let mut answers = Vec::new();
    for origin in origins {
        match downloader.download(
            &format!("{origin}/{path}"),
            input.size(),
            input.sha256(),
            &file,
            received,
        ) {
            Ok(()) => {
                let read = read_checked(&file, input).map_err(|error| error.to_string())?;
                return read
                    .unwrap_or_else(|| {
                        Err(Error::Read {
                            path: file,
                            source: io::ErrorKind::NotFound.into(),
                        })
                    })
                    .map_err(|error| error.to_string());
            }
            Err(error) => answers.push(format!("{origin}: {error}")),
        }
    }
    if answers.is_empty() {
        return Err("no server to ask".to_owned());
    }
    Err(answers.join("; "))
}

/// The folder that downloads are written to.
enum Scratch {
    Cache(PathBuf),
    Temporary(tempfile::TempDir),
}

impl Scratch {
    fn new(cache: Option<&Path>) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Cache { path, source }
        };
        let scratch = match cache {
            Some(cache) => Self::Cache(cache.to_owned()),
            None => Self::Temporary(tempfile::tempdir().map_err(failed(&env::temp_dir()))?),
        };
        let inputs = cache::input_path(scratch.path(), "");
        fs::create_dir_all(&inputs).map_err(failed(&inputs))?;
        Ok(scratch)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Cache(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// The sources that were tried, for people.
fn tried(sources: &Sources, origins: &[String]) -> Vec<String> {
    let mut tried = vec![match &sources.folder {
        Some(folder) => format!("the folder {}", folder.display()),
        None => "no folder (--inputs and GUEST_IMAGE_INPUTS are not set)".to_owned(),
    }];
    tried.push(match &sources.cache {
        Some(cache) => format!("the cache {}", cache.display()),
        None => "no cache".to_owned(),
    });
    if sources.offline {
        tried.push("no server (--offline)".to_owned());
    } else if origins.is_empty() {
        tried.push(
            "no mirror (none in apt's configuration; name one with GUEST_IMAGE_MIRROR)".to_owned(),
        );
    }
    tried.extend(origins.iter().cloned());
    tried
}
