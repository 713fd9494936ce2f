//! The guest's root file system: packages merged, trimmed, and completed with the little that no package brings.

mod system;
mod trim;

use std::collections::BTreeSet;

use crate::architecture::Architecture;
use crate::elf;
use crate::lock::{Input, Lock};
use crate::tree::{self, Tree};
use crate::unpack::{self, Limits, SITE_PACKAGES, unpack_deb, unpack_wheel};

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
    /// A library that nothing brings: a newer package needs it, or the lock lacks one.
    #[error("{path} needs {library}, which no package of the lock brings")]
    MissingLibrary {
        /// Who needs it.
        path: String,
        /// Its name.
        library: String,
    },
    /// A program whose tables make no sense.
    #[error("{0} is a broken program")]
    Broken(String),
    /// A program is for another machine.
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
    check_programs(tree, architecture)
}

/// Every program and library is for this machine, and finds what it asks the loader for.
fn check_programs(tree: &Tree, architecture: Architecture) -> Result<(), Error> {
    let libraries = format!("usr/lib/{}/", architecture.triplet());
    // Wheels bring libraries of their own, which they find beside themselves.
    let bundled: BTreeSet<_> = tree
        .files()
        .filter(|(path, _)| path.is_within(SITE_PACKAGES))
        .map(|(path, _)| path.name())
        .collect();
    for (path, data) in tree
        .files()
        .filter(|(_, data)| data.starts_with(b"\x7fELF"))
    {
        if Architecture::of_elf(data) != Some(architecture) {
            return Err(Error::WrongMachine {
                path: path.to_string(),
                expected: architecture,
            });
        }
        let needed = elf::needed(data).ok_or_else(|| Error::Broken(path.to_string()))?;
        for name in needed {
            let brought = path.is_within(SITE_PACKAGES) && bundled.contains(name);
            if !brought && tree.get(&format!("{libraries}{name}")).is_none() {
                return Err(Error::MissingLibrary {
                    path: path.to_string(),
                    library: name.to_owned(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Node;

    fn check_with(files: &[(&str, Vec<u8>)]) -> Result<(), Error> {
        let mut tree = Tree::default();
        for (path, data) in files {
            tree.put(path, Node::file(data.as_slice())).unwrap();
        }
        check_programs(&tree, Architecture::Amd64)
    }

    #[test]
    fn every_program_finds_its_libraries() {
        let libc = (
            "usr/lib/x86_64-linux-gnu/libc.so.6",
            elf::tests::write(62, &[]),
        );
        let python = (PYTHON, elf::tests::write(62, &["libc.so.6"]));
        check_with(&[libc.clone(), python.clone(), ("etc/x", b"text".to_vec())]).unwrap();
        assert!(matches!(
            check_with(&[python]),
            Err(Error::MissingLibrary { .. })
        ));
        let arm = (PYTHON, elf::tests::write(183, &["libc.so.6"]));
        assert!(matches!(
            check_with(&[libc.clone(), arm]),
            Err(Error::WrongMachine { .. })
        ));
        let broken = (PYTHON, libc.1[..40].to_vec());
        assert!(matches!(check_with(&[libc, broken]), Err(Error::Broken(_))));
    }

    #[test]
    fn wheels_find_what_they_bring() {
        let module = (
            "usr/lib/python3.14/site-packages/x/y.so",
            elf::tests::write(62, &["libz-1.so"]),
        );
        let bundled = (
            "usr/lib/python3.14/site-packages/x.libs/libz-1.so",
            elf::tests::write(62, &[]),
        );
        check_with(&[module.clone(), bundled]).unwrap();
        assert!(matches!(
            check_with(&[module]),
            Err(Error::MissingLibrary { .. })
        ));
    }
}
