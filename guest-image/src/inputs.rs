//! Gets the files that a lock names: from a folder, the cache, a mirror of Debian, the snapshot archive, in that order.
//!
//! It does not matter where a file comes from: its size and its SHA-256 have to be the lock's.

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

use download::Client;
use local::{from_cache, from_folder, read_checked};
pub(crate) use mirror::configured as configured_mirrors;

use crate::cache;
use crate::lock::{Input, Lock};
use crate::progress::Progress;

/// Downloads at a time: kind to mirrors, enough for a fast line.
const PARALLEL: usize = 4;

/// Where inputs may come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A folder with the files, by their own names or by their sums.
    pub folder: Option<PathBuf>,
    /// The cache; `None`: a folder that goes away again.
    pub cache: Option<PathBuf>,
    /// The mirror of Debian; `None`: what this machine's apt is configured with.
    pub mirror: Option<String>,
    /// The snapshot archive, such as `https://HOST/archive/debian`; `None`: what apt's configuration mentions.
    pub snapshot: Option<String>,
    /// Ask nobody else.
    pub offline: bool,
}

impl Sources {
    /// What `GUEST_IMAGE_INPUTS`, `GUEST_IMAGE_MIRROR` and `GUEST_IMAGE_SNAPSHOT` say, and the cache.
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

/// Why inputs are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that was given is not what the lock says.
    #[error("{path:?} is not the file that the lock names: expected {expected}, found {found}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Size and sum of the lock.
        expected: String,
        /// Those of the file.
        found: String,
    },
    /// A file that is there cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no room to download to.
    #[error("cannot write to the cache {path:?} (XDG_CACHE_HOME chooses another)")]
    Cache {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody has them.
    #[error("{}", gone_words(.missing, .tried))]
    Gone {
        /// The files, each with why it could not be had.
        missing: Vec<(String, String)>,
        /// Where they were looked for.
        tried: Vec<String>,
    },
}

fn gone_words(missing: &[(String, String)], tried: &[String]) -> String {
    let mut words = format!(
        "{} of the lock's inputs are nowhere to be had:",
        missing.len()
    );
    for (file, why) in missing {
        words.extend(["\n  ", file, ": ", why]);
    }
    words += "\nlooked in:";
    for source in tried {
        words.extend(["\n  ", source]);
    }
    words
        + "\n\nMirrors drop files that newer ones replace. Ways out:\n  \
        1. name the snapshot archive: GUEST_IMAGE_SNAPSHOT=https://HOST/archive/debian\n  \
        2. give a folder that holds the files: --inputs DIR or GUEST_IMAGE_INPUTS\n  \
        3. make a lock of today's packages, build that, and let the bridge use it (it is then not the committed image):\n     \
        guest-image lock --refresh --out my.json && guest-image build --lock my.json && export MCP_BRIDGE_IMAGE_LOCK=$PWD/my.json"
}

/// Gets all inputs of `lock`, in its order.
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
        let mut fetched = from_afar(lock, &missing, sources, progress)?.into_iter();
        for slot in found.iter_mut().filter(|slot| slot.is_none()) {
            *slot = fetched.next();
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// Downloads what is missing, into the cache.
fn from_afar(
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
    let client = Client::new();
    let total: u64 = missing.iter().map(|input| input.size()).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let told = |bytes| {
        let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        progress.report("downloading packages", done.min(total), Some(total));
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for sender in vec![sender; PARALLEL.min(missing.len())] {
            let (next, origins, scratch, client) = (&next, &origins, &scratch, &client);
            scope.spawn(move || {
                while let Some(input) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = from_origins(client, input, origins, scratch.path(), &told);
                    // The receiver outlives this scope.
                    let _ = sender.send((input.sha256(), result));
                }
            });
        }
    });
    let mut results: BTreeMap<_, _> = receiver.into_iter().collect();
    let mut fetched = Vec::new();
    let mut gone = Vec::new();
    for input in missing {
        match results.remove(input.sha256()) {
            Some(Ok(data)) => fetched.push(data),
            Some(Err(why)) => gone.push((input.file_name(), why)),
            None => gone.push((input.file_name(), "its download was given up".to_owned())),
        }
    }
    if gone.is_empty() {
        return Ok(fetched);
    }
    Err(Error::Gone {
        missing: gone,
        tried: tried(sources, &origins),
    })
}

/// Base addresses to try, in order, for a path that starts with `pool/`.
fn origins(lock: &Lock, sources: &Sources) -> Vec<String> {
    let mut origins = match &sources.mirror {
        Some(mirror) => vec![mirror.trim_end_matches('/').to_owned()],
        None => mirror::configured(),
    };
    let snapshot = sources.snapshot.clone().or_else(snapshot::configured);
    origins.extend(snapshot.map(|archive| snapshot::at(&archive, &lock.snapshot)));
    origins
}

/// Tries one origin after the other; the error says what each answered.
fn from_origins(
    client: &Client,
    input: &Input,
    origins: &[String],
    folder: &Path,
    told: &dyn Fn(u64),
) -> Result<Vec<u8>, String> {
    let Some(path) = input.mirror_path() else {
        return Err(
            "wheels are taken from the folder given (--inputs) or the cache only".to_owned(),
        );
    };
    let file = cache::input_path(folder, input.sha256());
    let mut answers = Vec::new();
    for origin in origins {
        match client.download(
            &format!("{origin}/{path}"),
            input.size(),
            input.sha256(),
            &file,
            told,
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
        return Err("there was nobody to ask".to_owned());
    }
    Err(answers.join("; "))
}

/// Where downloads land.
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

/// What was tried, in words.
fn tried(sources: &Sources, origins: &[String]) -> Vec<String> {
    let mut tried = vec![match &sources.folder {
        Some(folder) => format!("the folder {}", folder.display()),
        None => "no folder (none was given)".to_owned(),
    }];
    tried.push(match &sources.cache {
        Some(cache) => format!("the cache {}", cache.display()),
        None => "no cache (none was given)".to_owned(),
    });
    if sources.offline {
        tried.push("nowhere else, as asked (offline)".to_owned());
    } else if origins.is_empty() {
        tried.push(
            "no mirror (apt knows of none, or is not here; GUEST_IMAGE_MIRROR names one)"
                .to_owned(),
        );
    }
    tried.extend(origins.iter().cloned());
    tried
}
