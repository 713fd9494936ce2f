//! Assembles the guest's root file system: merges and trims the packages, and adds the few files
//! that are in no package.

mod system;
mod trim;

use std::collections::BTreeSet;

use crate::architecture::Architecture;
use crate::elf;
use crate::lock::{Input, Lock};
use crate::tree::{self, Tree};
use crate::unpack::{self, SITE_PACKAGES, UnpackLimits, unpack_deb, unpack_wheel};

/// Why the packages do not make a root file system.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot unpack {input}")]
    Unpack {
        input: String,
        source: unpack::Error,
    },
    #[error("cannot add {input} to the image")]
    Merge { input: String, source: tree::Error },
    #[error("the packages have no {0}: add the package that has it to the lock")]
    Missing(&'static str),
    #[error(
        "{path} needs {library}, which no package has: add the package that has it to the lock"
    )]
    MissingLibrary { path: String, library: String },
    #[error("{0} is a damaged program")]
    Damaged(String),
    #[error("{path} is not a program for {expected}")]
    WrongArchitecture {
        path: String,
        expected: Architecture,
    },
}

/// The path of the guest's interpreter.
pub(crate) const PYTHON: &str = "usr/bin/python3.14";
/// The folder of the standard library.
pub(crate) const STDLIB: &str = "usr/lib/python3.14";

/// Assembles the packages of a lock. `unpacked` gets the number of packages done so far.
pub(crate) fn assemble(
    lock: &Lock,
    architecture: Architecture,
    packages: &[Vec<u8>],
    unpacked: &dyn Fn(usize),
) -> Result<Tree, Error> {
    let mut tree = Tree::default();
    for (done, (input, package)) in lock.inputs.iter().zip(packages).enumerate() {
        let files = match input {
            Input::Deb { .. } => unpack_deb(package, UnpackLimits::default()),
            Input::Wheel { .. } => unpack_wheel(package, UnpackLimits::default()),
        };
        let mut files = files.map_err(|source| Error::Unpack {
            input: input.file_name(),
            source,
        })?;
        files.retain(|path| trim::keeps(input.name(), path, architecture));
        tree.merge(files).map_err(|source| Error::Merge {
            input: input.file_name(),
            source,
        })?;
        unpacked(done + 1);
    }
    system::complete(&mut tree).map_err(|source| Error::Merge {
        input: "system files".to_owned(),
        source,
    })?;
    check(&tree, architecture)?;
    Ok(tree)
}

/// Finds out that the lock lacks a package, before an engine does.
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

/// Checks that every program and library is for this architecture and has the libraries it needs.
fn check_programs(tree: &Tree, architecture: Architecture) -> Result<(), Error> {
    let libraries = format!("usr/lib/{}/", architecture.triplet());
    // Wheels bring libraries of their own, which they find by relative paths.
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
            return Err(Error::WrongArchitecture {
                path: path.to_string(),
                expected: architecture,
            });
        }
        let needed = elf::needed(data).ok_or_else(|| Error::Damaged(path.to_string()))?;
        for name in needed {
            let is_bundled = path.is_within(SITE_PACKAGES) && bundled.contains(name);
            if !is_bundled && tree.get(&format!("{libraries}{name}")).is_none() {
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
    fn programs_without_their_libraries_are_rejected() {
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
            Err(Error::WrongArchitecture { .. })
        ));
        let broken = (PYTHON, libc.1[..40].to_vec());
        assert!(matches!(
            check_with(&[libc, broken]),
            Err(Error::Damaged(_))
        ));
    }

    #[test]
    fn wheels_may_bring_their_libraries() {
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
