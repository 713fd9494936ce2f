//! A folder of wheels becomes part of a lock: each is read whole, so that one that is broken or meant for somebody else is
//! refused here, by name, and not in a guest. Libraries that wheels take for granted are added from the lock's own list.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::architecture::{Architecture, UnknownArchitecture};
use crate::elf;
use crate::lock::{self, Input, Lock, MAX_INPUT_BYTES};
use crate::progress::Progress;
use crate::sha256;
use crate::tree::Tree;
use crate::unpack::{self, Limits, SITE_PACKAGES, unpack_wheel};

/// What a wheel may ask the system for, and no package of the base image brings: the library, and the packages for it.
const LIBRARIES: [(&str, &[&str]); 3] = [
    ("libatomic.so.1", &["libatomic1"]),
    ("libgcc_s.so.1", &["libgcc-s1"]),
    ("libstdc++.so.6", &["libgcc-s1", "libstdc++6"]),
];

/// Why a folder of wheels cannot become part of a lock.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder, or a file in it, cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing to add.
    #[error("there is no wheel in {0:?}")]
    Empty(PathBuf),
    /// A package that would have to be built.
    #[error(
        "{0} is a source archive, and nothing is built here: take a wheel of it (pip download --only-binary=:all:)"
    )]
    Source(String),
    /// A file name that says nothing.
    #[error("{0} is not named as wheels are: NAME-VERSION-PYTHON-ABI-PLATFORM.whl")]
    Name(String),
    /// It does not run in this image.
    #[error(
        "{file} cannot go into the image: {why}; wheels that can: \
        pip download --only-binary=:all: --python-version 3.14 --platform manylinux_2_28{suffix} --platform manylinux2014{suffix} -d DIR PACKAGE"
    )]
    Unfit {
        /// The wheel.
        file: String,
        /// What is wrong.
        why: &'static str,
        /// How platforms of the image's machine end.
        suffix: &'static str,
    },
    /// It cannot be unpacked.
    #[error("{file} is broken")]
    Broken {
        /// The wheel.
        file: String,
        /// Why.
        source: unpack::Error,
    },
    /// It is another package than its name says.
    #[error("{file} is not what it is named: its metadata says {name:?}")]
    Renamed {
        /// The wheel.
        file: String,
        /// The name inside.
        name: String,
    },
    /// Only one of them can be imported.
    #[error("{name} is there twice: {one} and {other}")]
    Twice {
        /// The package.
        name: String,
        /// One file.
        one: String,
        /// The other.
        other: String,
    },
    /// The lock itself is wrong, or becomes too large.
    #[error(transparent)]
    Lock(#[from] lock::Error),
    /// The lock is for a machine that no image is made for.
    #[error(transparent)]
    Architecture(#[from] UnknownArchitecture),
}

/// `lock` with the wheels in `folder` instead of those it had, and with the libraries that they ask for.
pub fn pin_wheels(lock: &Lock, folder: &Path, progress: &dyn Progress) -> Result<Lock, Error> {
    let files = wheels_in(folder)?;
    let mut found = Found::default();
    for (done, file) in files.iter().enumerate() {
        progress.report("reading wheels", done as u64, Some(files.len() as u64));
        found.add(lock, &folder.join(file), file)?;
    }
    for (name, by) in found.unmet() {
        progress.warn(&format!("{by} needs {name}, which is not among the wheels"));
    }
    let wanted = found.packages();
    let (added, libraries) = (lock.libraries.iter().cloned())
        .partition::<Vec<_>, _>(|library| wanted.contains(library.name()));
    let debs = lock
        .inputs
        .iter()
        .filter(|input| matches!(input, Input::Deb { .. }));
    let inputs = debs
        .cloned()
        .chain(added)
        .chain(found.wheels.into_values())
        .collect();
    Ok(lock.with_inputs(lock.snapshot.clone(), inputs, libraries)?)
}

/// Names of the wheels in a folder, sorted.
fn wheels_in(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut wheels = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry
            .map_err(failed)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        match Path::new(&name).extension().and_then(OsStr::to_str) {
            Some("gz" | "zip") => return Err(Error::Source(name)),
            Some("whl") => wheels.push(name),
            _ => {}
        }
    }
    if wheels.is_empty() {
        return Err(Error::Empty(folder.to_owned()));
    }
    wheels.sort();
    Ok(wheels)
}

/// What has been read.
#[derive(Default)]
struct Found {
    /// By their normalised names.
    wheels: BTreeMap<String, Input>,
    /// Libraries that their files ask the loader for.
    needed: BTreeSet<String>,
    /// Packages that they cannot do without, by normalised names, each with one that says so.
    required: BTreeMap<String, String>,
}

impl Found {
    fn add(&mut self, lock: &Lock, path: &Path, file: &str) -> Result<(), Error> {
        let architecture = lock.architecture()?;
        let unfit = |why| Error::Unfit {
            file: file.to_owned(),
            why,
            suffix: architecture.wheel_suffix(),
        };
        let failed = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        if fs::metadata(path).map_err(failed)?.len() > MAX_INPUT_BYTES {
            return Err(unfit("it is too large"));
        }
        let data = fs::read(path).map_err(failed)?;
        let input = input(file, &data).ok_or_else(|| Error::Name(file.to_owned()))?;
        lock.accepts(&input).map_err(|error| match error {
            lock::Error::Invalid { why, .. } => unfit(why),
            other => other.into(),
        })?;
        let broken = |source| Error::Broken {
            file: file.to_owned(),
            source,
        };
        let tree = unpack_wheel(&data, Limits::default()).map_err(broken)?;
        let name = normal(input.name());
        let metadata = metadata(&tree);
        let inside = header(&metadata, "Name").next().unwrap_or_default();
        if normal(inside) != name {
            return Err(Error::Renamed {
                file: file.to_owned(),
                name: inside.chars().take(100).collect(),
            });
        }
        // What is needed under a condition may be needed elsewhere, or never.
        for requirement in header(&metadata, "Requires-Dist").filter(|text| !text.contains(';')) {
            let end = requirement.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
            let required = normal(&requirement[..end.unwrap_or(requirement.len())]);
            self.required
                .entry(required)
                .or_insert_with(|| name.clone());
        }
        for (_, file) in tree.files() {
            if Architecture::of_elf(file) == Some(architecture) {
                let needed = elf::needed(file).unwrap_or_default();
                self.needed.extend(needed.into_iter().map(str::to_owned));
            }
        }
        if let Some(other) = self.wheels.insert(name.clone(), input) {
            return Err(Error::Twice {
                name,
                one: other.file_name(),
                other: file.to_owned(),
            });
        }
        Ok(())
    }

    /// Packages that are not there, each with one that needs it.
    fn unmet(&self) -> impl Iterator<Item = (&String, &String)> {
        let required = self.required.iter();
        required.filter(|(name, _)| !self.wheels.contains_key(*name))
    }

    /// Debian's packages that bring what the wheels take for granted.
    fn packages(&self) -> BTreeSet<&'static str> {
        let asked = LIBRARIES
            .iter()
            .filter(|(library, _)| self.needed.contains(*library));
        asked.flat_map(|(_, packages)| *packages).copied().collect()
    }
}

/// A wheel by its file's name and content; `None` where it is not named as wheels are.
fn input(file: &str, data: &[u8]) -> Option<Input> {
    let mut parts = file.strip_suffix(".whl")?.splitn(3, '-');
    let (name, version, tags) = (parts.next()?, parts.next()?, parts.next()?);
    if !matches!(tags.split('-').count(), 3 | 4) {
        return None;
    }
    Some(Input::Wheel {
        name: name.replace('_', "-"),
        version: version.to_owned(),
        tags: tags.to_owned(),
        sha256: sha256::hex(data),
        size: data.len() as u64,
    })
}

/// The one spelling of a package's name that all others are compared by.
fn normal(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// The text that describes an unpacked wheel, or nothing.
fn metadata(tree: &Tree) -> String {
    let described = tree.files().find(|(path, _)| {
        let inside = path
            .as_str()
            .strip_prefix(SITE_PACKAGES)
            .unwrap_or_default();
        inside.ends_with(".dist-info/METADATA") && inside.matches('/').count() == 2
    });
    described.map_or_else(String::new, |(_, text)| {
        String::from_utf8_lossy(text).into_owned()
    })
}

/// Values of one header of such a text.
fn header<'a>(metadata: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let head = metadata.lines().take_while(|line| !line.is_empty());
    head.filter_map(move |line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests;
