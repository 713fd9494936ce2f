//! From a lock to a finished archive: the one path that `guest-image build`, the bridge and the tests take.

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::architecture::{Architecture, UnknownArchitecture};
use crate::cache;
use crate::compile::{self, Interpreter};
use crate::digests::{self, Digests};
use crate::inputs::{self, Sources};
use crate::layer;
use crate::layout::Image;
use crate::lock::{self, Lock};
use crate::progress::Progress;
use crate::rootfs;
use crate::runtime::{self, Runtime};
use crate::tree::Tree;

/// What to build.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// The set of packages: `base`.
    pub flavour: String,
    /// Debian's name of the machine; `None`: this one.
    pub architecture: Option<String>,
    /// A lock of one's own; `None`: the committed one.
    pub lock: Option<PathBuf>,
    /// Where inputs come from.
    pub sources: Sources,
    /// Folder for `guest-<flavour>-<architecture>.tar`; `None`: the cache only.
    pub out: Option<PathBuf>,
    /// Another runtime than the embedded one, for work on it.
    pub runtime: Option<PathBuf>,
}

impl BuildOptions {
    /// The committed image of that flavour for this machine, as the environment says.
    pub fn new(flavour: &str) -> Self {
        Self {
            flavour: flavour.to_owned(),
            architecture: None,
            lock: None,
            sources: Sources::from_environment(),
            out: None,
            runtime: None,
        }
    }
}

/// A finished image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The archive.
    pub archive: PathBuf,
    /// What it is.
    pub digests: Digests,
    /// It is the image whose digests are committed.
    pub committed: bool,
    /// Bytes of all files in it.
    pub unpacked_bytes: u64,
    /// Files, folders and links in it.
    pub entries: usize,
}

/// Why an image cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lock cannot be used.
    #[error(transparent)]
    Lock(#[from] lock::Error),
    /// Inputs are not to be had.
    #[error(transparent)]
    Inputs(#[from] inputs::Error),
    /// The packages do not make a guest.
    #[error(transparent)]
    RootFs(#[from] rootfs::Error),
    /// The guest's Python cannot compile its modules.
    #[error(transparent)]
    Compile(#[from] compile::Error),
    /// The runtime cannot be used.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    /// The digests cannot be read or written.
    #[error(transparent)]
    Digests(#[from] digests::Error),
    /// No such machine.
    #[error(transparent)]
    Architecture(#[from] UnknownArchitecture),
    /// The interpreter for this machine is not of the version that the image has.
    #[error(
        "cannot compile for {architecture}: its lock has Python {wanted}, the one for this machine has {have}; refresh both locks together"
    )]
    PythonVersion {
        /// The image's machine.
        architecture: Architecture,
        /// Its version.
        wanted: String,
        /// The version here.
        have: String,
    },
    /// The result is not what is committed.
    #[error(
        "the image came out as {found}, but {expected} is expected: {}",
        "after a change of the lock or of the guest's runtime run `guest-image digest --write`, build anew and commit the digests; else an input or this program was changed"
    )]
    Mismatch {
        /// The digest that is committed, or stands beside the lock.
        expected: String,
        /// The digest that came out.
        found: String,
    },
    /// The image cannot be put together.
    #[error("cannot put the image together")]
    Pack(#[source] io::Error),
    /// The archive cannot be written.
    #[error("cannot write {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Builds an image and checks it against the digests that belong to its lock.
///
/// Digests beside a lock of one's own are written where there are none yet, or none of this lock and runtime.
pub fn build(options: &BuildOptions, progress: &dyn Progress) -> Result<Built, Error> {
    let lock = read_lock(options)?;
    let image = make(options, &lock, progress)?;
    let expected = expected(options, &lock)?;
    let found = image.packed.digests();
    if let Some(expected) = &expected
        && expected.manifest != found.manifest
    {
        return Err(Error::Mismatch {
            expected: expected.manifest.clone(),
            found: found.manifest.clone(),
        });
    }
    let archive = store(options, &lock, &image.packed, progress)?;
    if let (Some(path), None, None) = (&options.lock, &options.runtime, &expected) {
        found.write(&lock, path)?;
    }
    let committed = digests::committed(&lock.flavour, &lock.architecture)
        .is_some_and(|committed| committed.manifest == found.manifest);
    Ok(Built {
        archive,
        digests: found.clone(),
        committed,
        unpacked_bytes: image.unpacked_bytes,
        entries: image.entries,
    })
}

/// What the image has to be: what is committed, or what stands beside a lock of one's own; another runtime is free.
fn expected(options: &BuildOptions, lock: &Lock) -> Result<Option<Digests>, Error> {
    if options.runtime.is_some() {
        return Ok(None);
    }
    let Some(path) = &options.lock else {
        return Ok(digests::committed(&lock.flavour, &lock.architecture));
    };
    Ok(Digests::of(lock, path)?)
}

/// The digests that an image has if built now, whatever is committed; nothing is kept.
pub fn digests(options: &BuildOptions, progress: &dyn Progress) -> Result<(Lock, Digests), Error> {
    let lock = read_lock(options)?;
    let image = make(options, &lock, progress)?;
    Ok((lock, image.packed.digests().clone()))
}

fn read_lock(options: &BuildOptions) -> Result<Lock, Error> {
    if let Some(path) = &options.lock {
        return Ok(Lock::read(path)?);
    }
    let architecture = match &options.architecture {
        Some(name) => name.parse()?,
        None => Architecture::host().ok_or(compile::Error::Host)?,
    };
    Ok(Lock::embedded(&options.flavour, architecture)?)
}

/// An image and what it holds.
struct Made {
    packed: Image,
    unpacked_bytes: u64,
    entries: usize,
}

fn make(options: &BuildOptions, lock: &Lock, progress: &dyn Progress) -> Result<Made, Error> {
    let architecture = lock.architecture()?;
    let mut runtime = match &options.runtime {
        Some(folder) => Runtime::read(folder)?,
        None => Runtime::embedded(),
    }
    .tree()?;
    let mut distribution = unpack(lock, architecture, &options.sources, progress)?;
    let host = Architecture::host().ok_or(compile::Error::Host)?;
    let interpreter = if host == architecture {
        Interpreter::prepare(&distribution, host)?
    } else {
        let sibling = sibling(options, lock, host)?;
        Interpreter::prepare(&unpack(&sibling, host, &options.sources, progress)?, host)?
    };
    progress.report("compiling Python modules", 0, None);
    interpreter.compile(&mut distribution, compile::is_module)?;
    interpreter.compile(&mut runtime, |path| path.name() != runtime::ENTRY)?;
    progress.report("packing the image", 0, None);
    let (unpacked_bytes, entries) = (
        distribution.size() + runtime.size(),
        distribution.len() + runtime.len(),
    );
    // Two layers, so that a change of the runtime leaves the large one as it is in every engine.
    let layers = vec![
        (
            layer::write(&distribution).map_err(Error::Pack)?,
            "packages of Debian, trimmed and compiled",
        ),
        (
            layer::write(&runtime).map_err(Error::Pack)?,
            "the guest's runtime",
        ),
    ];
    let packed = Image::new(&lock.flavour, architecture, layers)
        .map_err(|error| Error::Pack(error.into()))?;
    Ok(Made {
        packed,
        unpacked_bytes,
        entries,
    })
}

fn unpack(
    lock: &Lock,
    architecture: Architecture,
    sources: &Sources,
    progress: &dyn Progress,
) -> Result<Tree, Error> {
    let packages = inputs::fetch(lock, sources, progress)?;
    let total = packages.len() as u64;
    let told = |done: usize| progress.report("unpacking packages", done as u64, Some(total));
    Ok(rootfs::assemble(lock, architecture, &packages, &told)?)
}

/// The lock of the same flavour for this machine: beside the one given, else the committed one.
fn sibling(options: &BuildOptions, lock: &Lock, host: Architecture) -> Result<Lock, Error> {
    let beside = options
        .lock
        .as_ref()
        .map(|path| path.with_file_name(format!("{}.{host}.json", lock.flavour)));
    let sibling = match beside.filter(|path| path.exists()) {
        Some(path) => Lock::read(&path)?,
        None => Lock::embedded(&lock.flavour, host)?,
    };
    let version = |lock: &Lock| lock.python_version().unwrap_or("none").to_owned();
    if version(&sibling) != version(lock) {
        return Err(Error::PythonVersion {
            architecture: lock.architecture()?,
            wanted: version(lock),
            have: version(&sibling),
        });
    }
    Ok(sibling)
}

/// Writes the archive to the cache and, if asked, to a folder.
fn store(
    options: &BuildOptions,
    lock: &Lock,
    image: &Image,
    progress: &dyn Progress,
) -> Result<PathBuf, Error> {
    let cached = options
        .sources
        .cache
        .as_ref()
        .map(|cache| cache::image_path(cache, &image.digests().manifest));
    let named = options
        .out
        .as_ref()
        .map(|folder| folder.join(format!("guest-{}-{}.tar", lock.flavour, lock.architecture)));
    if let Some(path) = &named {
        write(path, image)?;
    }
    match (cached, named) {
        (Some(path), named) => match (write(&path, image), named) {
            (Ok(()), named) => Ok(named.unwrap_or(path)),
            (Err(error), Some(named)) => {
                progress.warn(&format!("the image is not kept in the cache: {error}"));
                Ok(named)
            }
            (Err(error), None) => Err(error),
        },
        (None, Some(named)) => Ok(named),
        (None, None) => {
            let path = std::env::temp_dir()
                .join(format!("guest-{}-{}.tar", lock.flavour, lock.architecture));
            write(&path, image)?;
            Ok(path)
        }
    }
}

/// Whole or not at all, for everyone to read.
fn write(path: &Path, image: &Image) -> Result<(), Error> {
    let failed = |source| Error::Write {
        path: path.to_owned(),
        source,
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    image
        .write(BufWriter::new(file.as_file_mut()))
        .map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    digests::readable(file.path()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
