//! Builds the archive of an image from a lock, for `guest-image build`, the bridge and the tests.

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use bridge_common::fs::write_atomic_with;

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

/// Which image to build, from where and to where.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// The set of packages, such as `base`.
    pub flavour: String,
    /// `amd64` or `arm64`; `None` for that of this machine.
    pub architecture: Option<String>,
    /// The path of a lock; `None` for the committed one.
    pub lock: Option<PathBuf>,
    /// Where the lock's inputs come from.
    pub sources: Sources,
    /// A folder that gets `guest-<flavour>-<architecture>.tar`; `None` for the cache only.
    pub out: Option<PathBuf>,
    /// A folder with the guest's runtime; `None` for the embedded one.
    pub runtime: Option<PathBuf>,
}

impl BuildOptions {
    /// The committed image for this machine, with inputs as the environment says.
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

/// A finished image archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The path of the archive.
    pub archive: PathBuf,
    /// The identity of the image.
    pub digests: Digests,
    /// Whether the committed digests are those of this image.
    pub committed: bool,
    /// Size in bytes of all files in the image.
    pub unpacked_bytes: u64,
    /// Number of files, folders and links in the image.
    pub entries: usize,
}

/// Why an image cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Lock(#[from] lock::Error),
    #[error(transparent)]
    Inputs(#[from] inputs::Error),
    #[error(transparent)]
    RootFs(#[from] rootfs::Error),
    #[error(transparent)]
    Compile(#[from] compile::Error),
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    #[error(transparent)]
    Digests(#[from] digests::Error),
    #[error(transparent)]
    Architecture(#[from] UnknownArchitecture),
    #[error(
        "cannot compile for {architecture}: its lock has Python {wanted}, that for this machine has \
        {have}; refresh both locks together"
    )]
    PythonVersion {
        architecture: Architecture,
        wanted: String,
        have: String,
    },
    #[error(
        "the built image does not match its digests: expected {expected}, found {found}; if the lock \
        or the guest's runtime was changed on purpose, run `guest-image digest --write`, build again \
        and commit the digests; otherwise an input or this program has changed"
    )]
    Mismatch { expected: String, found: String },
    #[error("cannot pack the image")]
    Pack(#[source] io::Error),
    #[error("cannot write the image archive {path:?}")]
    Write { path: PathBuf, source: io::Error },
}

/// Builds an image and checks it against the digests that belong to its lock.
///
/// For a lock of the caller's own, digests are written beside it unless those there belong to this
/// lock and runtime.
pub fn build(options: &BuildOptions, progress: &dyn Progress) -> Result<Built, Error> {
    let lock = read_lock(options)?;
    let image = assemble(options, &lock, progress)?;
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

/// What the image must be: the committed digests, or those beside the given lock. Nothing is known
/// about an image with another runtime.
fn expected(options: &BuildOptions, lock: &Lock) -> Result<Option<Digests>, Error> {
    if options.runtime.is_some() {
        return Ok(None);
    }
    let Some(path) = &options.lock else {
        return Ok(digests::committed(&lock.flavour, &lock.architecture));
    };
    Ok(Digests::of(lock, path)?)
}

/// Builds an image, compares it with nothing and keeps nothing but its digests.
pub fn digests(options: &BuildOptions, progress: &dyn Progress) -> Result<(Lock, Digests), Error> {
    let lock = read_lock(options)?;
    let image = assemble(options, &lock, progress)?;
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

/// An image in memory, and its size.
struct Assembled {
    packed: Image,
    unpacked_bytes: u64,
    entries: usize,
}

fn assemble(
    options: &BuildOptions,
    lock: &Lock,
    progress: &dyn Progress,
) -> Result<Assembled, Error> {
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
    // Two layers, so that engines keep the large one when only the runtime changes.
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
    Ok(Assembled {
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
    let unpacked = |done: usize| progress.report("unpacking packages", done as u64, Some(total));
    Ok(rootfs::assemble(lock, architecture, &packages, &unpacked)?)
}

/// The lock of the same flavour for this machine: the one beside the given lock, else the committed
/// one.
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

/// Writes the archive to the cache and, if requested, to a folder.
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
                progress.warn(&format!("cannot keep the image in the cache: {error}"));
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

/// Writes the archive, readable for everyone.
fn write(path: &Path, image: &Image) -> Result<(), Error> {
    let failed = |source| Error::Write {
        path: path.to_owned(),
        source,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| write_atomic_with(path, 0o644, |file| image.write(BufWriter::new(file))))
        .map_err(failed)
}
