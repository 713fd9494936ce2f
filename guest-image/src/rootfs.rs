//! The guest's root file system: packages merged, trimmed, and completed with the little that no package brings.

mod system;
mod trim;

use crate::architecture::Architecture;
use crate::lock::{Input, Lock};
use crate::tree::{self, Tree};
use crate::unpack::{self, Limits, unpack_deb, unpack_wheel};

/// Why the packages do not make a root file system.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A package cannot be unpacked.
    #[error("cannot unpack {input}")]
    Unpack {
        /// Its file.
        input: String,
        /// Why.
        source: unpack::Error,
    },
    /// Packages do not fit together.
    #[error("cannot add {input} to the image")]
    Merge {
        /// Its file, or `system files`.
        input: String,
        /// Why.
        source: tree::Error,
    },
    /// Something that a guest needs is missing.
    #[error("the packages bring no {0}: the lock lacks a package")]
    Missing(&'static str),
    /// The interpreter is for another machine.
    #[error("{path} is no program for {expected}")]
    WrongMachine {
        /// The file.
        path: String,
        /// What the lock says.
        expected: Architecture,
    },
}

/// The guest's interpreter.
pub(crate) const PYTHON: &str = "usr/bin/python3.14";
/// Its standard library.
pub(crate) const STDLIB: &str = "usr/lib/python3.14";

/// Puts the packages of a lock together. `told` hears of each package done.
pub(crate) fn assemble(
    lock: &Lock,
    architecture: Architecture,
    packages: &[Vec<u8>],
    told: &dyn Fn(usize),
) -> Result<Tree, Error> {
    let mut tree = Tree::default();
    for (done, (input, package)) in lock.inputs.iter().zip(packages).enumerate() {
        let unpacked = match input {
            Input::Deb { .. } => unpack_deb(package, Limits::default()),
            Input::Wheel { .. } => unpack_wheel(package, Limits::default()),
        };
        let mut unpacked = unpacked.map_err(|source| Error::Unpack {
            input: input.file_name(),
            source,
        })?;
        unpacked.retain(|path| trim::keeps(input.name(), path, architecture));
        tree.merge(unpacked).map_err(|source| Error::Merge {
            input: input.file_name(),
            source,
        })?;
        told(done + 1);
    }
    system::complete(&mut tree).map_err(|source| Error::Merge {
        input: "system files".to_owned(),
        source,
    })?;
    check(&tree, architecture)?;
    Ok(tree)
}

/// Catches a lock that lacks something, before an engine does.
fn check(tree: &Tree, architecture: Architecture) -> Result<(), Error> {
    if tree.file(PYTHON).is_none() {
        return Err(Error::Missing("interpreter"));
    }
    if tree
        .file(&format!(
            "usr/lib/{}/{}",
            architecture.triplet(),
            architecture.loader()
        ))
        .is_none()
    {
        return Err(Error::Missing("dynamic loader"));
    }
    if tree.file(&format!("{STDLIB}/os.py")).is_none() {
        return Err(Error::Missing("standard library"));
    }
    for (path, data) in tree.files() {
        let program = data.starts_with(b"\x7fELF");
        if program && Architecture::of_elf(data) != Some(architecture) {
            return Err(Error::WrongMachine {
                path: path.to_string(),
                expected: architecture,
            });
        }
    }
    Ok(())
}
