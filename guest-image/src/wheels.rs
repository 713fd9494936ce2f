//! Adds a folder of wheels to a lock. Each wheel is read completely, so that a damaged or
//! incompatible one is rejected here, by name, and not in a guest. Debian libraries that wheels
//! expect on every system are added from the lock's own list.

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
use crate::unpack::{self, SITE_PACKAGES, UnpackLimits, unpack_wheel};

/// Libraries that wheels expect but the base image does not have, each with the packages for it.
const LIBRARIES: [(&str, &[&str]); 3] = [
    ("libatomic.so.1", &["libatomic1"]),
    ("libgcc_s.so.1", &["libgcc-s1"]),
    ("libstdc++.so.6", &["libgcc-s1", "libstdc++6"]),
];

/// Why a folder of wheels cannot be added to a lock.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("no wheel in {0:?}")]
    Empty(PathBuf),
    #[error(
        "cannot use {0}: it is a source archive, and nothing is built here; \
        get a wheel: pip download --only-binary=:all: PACKAGE"
    )]
    SourceArchive(String),
    #[error("{0} is not named like a wheel: NAME-VERSION-PYTHON-ABI-PLATFORM.whl")]
    Name(String),
    #[error(
        "cannot add {file} to the image: {why}; get a compatible wheel: \
        pip download --only-binary=:all: --python-version 3.14 --platform manylinux_2_28{suffix} --platform manylinux2014{suffix} -d DIR PACKAGE"
    )]
    Incompatible {
        file: String,
        why: &'static str,
        /// Of the platform tags for the image's architecture.
        suffix: &'static str,
    },
    #[error("{file} is damaged")]
    Damaged { file: String, source: unpack::Error },
    #[error("{file} does not have the right name: its metadata says {name:?}")]
    Renamed { file: String, name: String },
    #[error("{name} occurs twice: {one} and {other}")]
    Duplicate {
        name: String,
        one: String,
        other: String,
    },
    #[error(transparent)]
    Lock(#[from] lock::Error),
    #[error(transparent)]
    Architecture(#[from] UnknownArchitecture),
}

/// A lock with the wheels in `folder` instead of those in `lock`, and with the libraries that they
/// need. Requirements that are not among the wheels are reported as warnings.
pub fn pin_wheels(lock: &Lock, folder: &Path, progress: &dyn Progress) -> Result<Lock, Error> {
    let files = wheels_in(folder)?;
    let mut set = WheelSet::default();
    for (done, file) in files.iter().enumerate() {
        progress.report("reading wheels", done as u64, Some(files.len() as u64));
        set.add(lock, &folder.join(file), file)?;
    }
    for (name, by) in set.missing() {
        progress.warn(&format!("{by} needs {name}, which is not among the wheels"));
    }
    let wanted = set.packages();
    let (added, libraries) = (lock.libraries.iter().cloned())
        .partition::<Vec<_>, _>(|library| wanted.contains(library.name()));
    let debs = lock
        .inputs
        .iter()
        .filter(|input| matches!(input, Input::Deb { .. }));
    let inputs = debs
        .cloned()
        .chain(added)
        .chain(set.wheels.into_values())
        .collect();
    Ok(lock.with_inputs(lock.snapshot.clone(), inputs, libraries)?)
}

/// The file names of the wheels in a folder, sorted.
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
            Some("gz" | "zip") => return Err(Error::SourceArchive(name)),
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

/// The wheels read so far, and what they need.
#[derive(Default)]
struct WheelSet {
    /// By normalised name.
    wheels: BTreeMap<String, Input>,
    /// The shared libraries that their extension modules need.
    needed: BTreeSet<String>,
    /// The packages that they always require, by normalised name, each with a wheel that requires
    /// it.
    required: BTreeMap<String, String>,
}

impl WheelSet {
    fn add(&mut self, lock: &Lock, path: &Path, file: &str) -> Result<(), Error> {
        let architecture = lock.architecture()?;
        let incompatible = |why| Error::Incompatible {
            file: file.to_owned(),
            why,
            suffix: architecture.wheel_suffix(),
        };
        let failed = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        if fs::metadata(path).map_err(failed)?.len() > MAX_INPUT_BYTES {
            return Err(incompatible("it is larger than 256 MiB"));
        }
        let data = fs::read(path).map_err(failed)?;
        let input = input(file, &data).ok_or_else(|| Error::Name(file.to_owned()))?;
        lock.accepts(&input).map_err(|error| match error {
            lock::Error::Invalid { why, .. } => incompatible(why),
            other => other.into(),
        })?;
        let damaged = |source| Error::Damaged {
            file: file.to_owned(),
            source,
        };
        let tree = unpack_wheel(&data, UnpackLimits::default()).map_err(damaged)?;
        let name = normalised(input.name());
        let metadata = metadata(&tree);
        let inside = header(&metadata, "Name").next().unwrap_or_default();
        if normalised(inside) != name {
            return Err(Error::Renamed {
                file: file.to_owned(),
                name: inside.chars().take(100).collect(),
            });
        }
        // A requirement with a condition may not apply to the guest.
        for requirement in header(&metadata, "Requires-Dist").filter(|text| !text.contains(';')) {
            let end = requirement.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
            let required = normalised(&requirement[..end.unwrap_or(requirement.len())]);
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
            return Err(Error::Duplicate {
                name,
                one: other.file_name(),
                other: file.to_owned(),
            });
        }
        Ok(())
    }

    /// Required packages that are not among the wheels, each with a wheel that requires it.
    fn missing(&self) -> impl Iterator<Item = (&String, &String)> {
        let required = self.required.iter();
        required.filter(|(name, _)| !self.wheels.contains_key(*name))
    }

    /// The Debian packages with the libraries that the wheels need.
    fn packages(&self) -> BTreeSet<&'static str> {
        let needed = LIBRARIES
            .iter()
            .filter(|(library, _)| self.needed.contains(*library));
        needed
            .flat_map(|(_, packages)| *packages)
            .copied()
            .collect()
    }
}

/// The input for a wheel with this file name and content; `None` if it is not named like a wheel.
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
        sha256: sha256::hex_digest(data),
        size: data.len() as u64,
    })
}

/// The name of a package in the form in which names are compared.
fn normalised(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// The metadata of an unpacked wheel, or nothing.
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

/// The values of a metadata field.
fn header<'a>(metadata: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let head = metadata.lines().take_while(|line| !line.is_empty());
    head.filter_map(move |line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests;
