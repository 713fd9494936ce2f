//! Gets the files that a lock names: from a folder, the cache, a mirror of Debian, the snapshot archive, in that order.
//!
//! It does not matter where a file comes from: its size and its SHA-256 have to be the lock's.

mod download;
mod mirror;
#[cfg(test)]
mod server;
mod snapshot;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use download::Client;
pub(crate) use mirror::configured as configured_mirrors;

use crate::cache;
use crate::lock::{Input, Lock};
use crate::progress::Progress;
use crate::sha256;

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

/// A file of the folder given, by name or by sum. One with the right name and the wrong content is an error: whoever
/// gave the folder should know.
fn from_folder(folder: &Path, input: &Input) -> Result<Option<Vec<u8>>, Error> {
    let sum = input.sha256();
    for path in [
        folder.join(input.file_name()),
        folder.join(sum),
        folder.join("sha256").join(sum),
    ] {
        if let Some(result) = read_checked(&path, input)? {
            return result.map(Some);
        }
    }
    Ok(None)
}

fn from_cache(
    cache: &Path,
    input: &Input,
    progress: &dyn Progress,
) -> Result<Option<Vec<u8>>, Error> {
    let path = cache::input_path(cache, input.sha256());
    match read_checked(&path, input)? {
        Some(Err(Error::Wrong { .. })) => {
            progress.warn(&format!(
                "the cached {} is damaged and will be fetched anew",
                input.file_name()
            ));
            fs::remove_file(&path).map_err(|source| Error::Cache { path, source })?;
            Ok(None)
        }
        Some(result) => result.map(Some),
        None => Ok(None),
    }
}

/// `None`: no such file. The inner result says whether it is the right one.
fn read_checked(path: &Path, input: &Input) -> Result<Option<Result<Vec<u8>, Error>>, Error> {
    let read_error = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let length = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(error)),
    };
    let wrong = |found| Error::Wrong {
        path: path.to_owned(),
        expected: format!("{} bytes, sha256 {}", input.size(), input.sha256()),
        found,
    };
    if length != input.size() {
        return Ok(Some(Err(wrong(format!("{length} bytes")))));
    }
    let data = fs::read(path).map_err(read_error)?;
    let sum = sha256::hex(&data);
    if sum != input.sha256() {
        return Ok(Some(Err(wrong(format!("sha256 {sum}")))));
    }
    Ok(Some(Ok(data)))
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
        return Err("wheels are taken from the folder given or the cache only".to_owned());
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

#[cfg(test)]
mod tests {
    use super::server::{Server, answer, serve};
    use super::*;
    use crate::progress::Silent;

    const MOMENT: &str = "20261030T200801Z";

    fn data(name: &str) -> Vec<u8> {
        format!("the package {name}").into_bytes()
    }

    /// A lock of small packages that need not be packages.
    fn lock(names: &[&str]) -> Lock {
        let inputs: Vec<_> = names
            .iter()
            .map(|name| {
                serde_json::json!({
                    "kind": "deb", "name": name, "version": "1", "architecture": "amd64",
                    "sha256": sha256::hex(&data(name)), "size": data(name).len(),
                    "url": format!("mirror://debian/pool/main/x/{name}/{name}_1_amd64.deb"),
                })
            })
            .collect();
        let lock = serde_json::json!({
            "schema": 1, "flavour": "base", "architecture": "amd64", "suite": "unstable",
            "snapshot": MOMENT, "inputs": inputs,
        });
        Lock::parse(lock.to_string().as_bytes()).unwrap()
    }

    fn sources(cache: &Path) -> Sources {
        Sources {
            cache: Some(cache.to_owned()),
            mirror: Some("http://127.0.0.1:1/nobody".to_owned()),
            snapshot: Some("http://127.0.0.1:1/archive/debian".to_owned()),
            ..Sources::default()
        }
    }

    #[test]
    fn a_folder_serves_by_name_and_by_sum() {
        let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let lock = lock(&["a", "b", "c"]);
        fs::write(folder.path().join("a_1_amd64.deb"), data("a")).unwrap();
        fs::write(folder.path().join(lock.inputs[1].sha256()), data("b")).unwrap();
        fs::create_dir(folder.path().join("sha256")).unwrap();
        fs::write(
            folder.path().join("sha256").join(lock.inputs[2].sha256()),
            data("c"),
        )
        .unwrap();
        let sources = Sources {
            folder: Some(folder.path().to_owned()),
            offline: true,
            ..sources(cache.path())
        };
        assert_eq!(
            fetch(&lock, &sources, &Silent).unwrap(),
            [data("a"), data("b"), data("c")]
        );
        for wrong in [&b"the package x"[..], b"short"] {
            fs::write(folder.path().join("a_1_amd64.deb"), wrong).unwrap();
            assert!(matches!(
                fetch(&lock, &sources, &Silent),
                Err(Error::Wrong { .. })
            ));
        }
    }

    #[test]
    fn many_files_come_from_the_mirror_then_from_the_cache() {
        let cache = tempfile::tempdir().unwrap();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let server = Server::start(|(path, range)| {
            let name = path
                .rsplit('/')
                .next()
                .unwrap()
                .trim_end_matches("_1_amd64.deb");
            serve(&data(name), &(path.clone(), *range))
        });
        let lock = lock(&names);
        let expected: Vec<_> = names.iter().map(|name| data(name)).collect();
        let online = Sources {
            mirror: Some(format!("{}/debian/", server.address)),
            ..sources(cache.path())
        };
        assert_eq!(fetch(&lock, &online, &Silent).unwrap(), expected);
        let mut asked: Vec<_> = server
            .requests()
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        asked.sort();
        assert_eq!(asked.len(), names.len());
        assert_eq!(asked[0], "/debian/pool/main/x/a/a_1_amd64.deb");
        let offline = Sources {
            offline: true,
            ..online.clone()
        };
        assert_eq!(fetch(&lock, &offline, &Silent).unwrap(), expected);
        // A damaged file of the cache is fetched anew, and only that.
        fs::write(
            cache::input_path(cache.path(), lock.inputs[3].sha256()),
            b"the package x",
        )
        .unwrap();
        assert_eq!(fetch(&lock, &online, &Silent).unwrap(), expected);
        assert_eq!(server.requests().len(), names.len() + 1);
    }

    #[test]
    fn what_the_mirror_dropped_comes_from_the_snapshot_archive() {
        let cache = tempfile::tempdir().unwrap();
        let server = Server::start(|(path, range)| {
            if path.starts_with("/archive/debian/20261030t200801z/pool/") {
                serve(&data("a"), &(path.clone(), *range))
            } else {
                answer("404 Not Found", "", 0, b"")
            }
        });
        let sources = Sources {
            mirror: Some(format!("{}/debian", server.address)),
            snapshot: Some(format!("{}/archive/debian", server.address)),
            ..sources(cache.path())
        };
        assert_eq!(
            fetch(&lock(&["a"]), &sources, &Silent).unwrap(),
            [data("a")]
        );
        assert_eq!(server.requests().len(), 2);
    }

    #[test]
    fn what_nobody_has_is_named_with_every_answer() {
        let cache = tempfile::tempdir().unwrap();
        let server = Server::start(|_| answer("404 Not Found", "", 0, b""));
        let sources = Sources {
            mirror: Some(format!("{}/debian", server.address)),
            ..sources(cache.path())
        };
        let error = fetch(&lock(&["a", "b"]), &sources, &Silent).unwrap_err();
        let said = error.to_string().replace(&server.address, "http://MIRROR");
        let said = said.replace(&cache.path().display().to_string(), "CACHE");
        insta::assert_snapshot!(said);
    }

    #[test]
    fn without_a_cache_nothing_is_left_behind() {
        let server = Server::start(|request| serve(&data("a"), request));
        let sources = Sources {
            cache: None,
            mirror: Some(server.address.clone()),
            ..Sources::default()
        };
        assert_eq!(
            fetch(&lock(&["a"]), &sources, &Silent).unwrap(),
            [data("a")]
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        let unwritable = Sources {
            cache: Some(file.path().to_owned()),
            ..sources
        };
        let error = fetch(&lock(&["a"]), &unwritable, &Silent).unwrap_err();
        assert!(
            matches!(error, Error::Read { .. } | Error::Cache { .. }),
            "{error}"
        );
    }
}
