//! The guest's runtime: the Python files that are `/opt/guest` in the image.

mod walk;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::sha256;
use crate::tree::{self, Node, Tree};

/// The folder of the runtime in the image.
pub(crate) const FOLDER: &str = "opt/guest";
/// The file that a container starts.
pub(crate) const ENTRY: &str = "entry.py";

static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/runtime_files.rs"));

/// The content of the files by their path below [`FOLDER`], sorted.
pub(crate) struct Runtime {
    files: Vec<(String, Cow<'static, [u8]>)>,
}

/// Why a runtime cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the guest's runtime in {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the guest's runtime has no {ENTRY}")]
    NoEntry,
    #[error(transparent)]
    Tree(#[from] tree::Error),
}

impl Runtime {
    /// The runtime that this program was built with.
    pub(crate) fn embedded() -> Self {
        let files = EMBEDDED
            .iter()
            .map(|(path, data)| ((*path).to_owned(), Cow::Borrowed(*data)));
        Self {
            files: files.collect(),
        }
    }

    /// Reads a runtime from a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Read { path, source }
        };
        let mut files = Vec::new();
        for path in walk::python_files(folder).map_err(failed(folder))? {
            let full = folder.join(&path);
            files.push((path, Cow::Owned(fs::read(&full).map_err(failed(&full))?)));
        }
        Ok(Self { files })
    }

    /// A digest of all paths and contents.
    pub(crate) fn digest(&self) -> String {
        let mut text = String::new();
        for (path, data) in &self.files {
            text.push_str(&sha256::hex_digest(data));
            text.push(' ');
            text.push_str(path);
            text.push('\n');
        }
        sha256::digest(text.as_bytes())
    }

    /// The files at their places in the image.
    pub(crate) fn tree(&self) -> Result<Tree, Error> {
        if !self.files.iter().any(|(path, _)| path == ENTRY) {
            return Err(Error::NoEntry);
        }
        let mut tree = Tree::default();
        for (path, data) in &self.files {
            tree.put(&format!("{FOLDER}/{path}"), Node::file(data.as_ref()))?;
        }
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_python_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [
            "entry.py",
            "mcp/py.typed",
            "mcp/a.py",
            "mcp/__pycache__/a.py",
            "mcp/.b.py/c.py",
            "notes.txt",
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a writable folder");
            fs::write(path, "x").expect("a writable folder");
        }
        let runtime = Runtime::read(folder.path()).expect("readable");
        let paths: Vec<_> = runtime
            .files
            .iter()
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(paths, ["entry.py", "mcp/a.py", "mcp/py.typed"]);
        assert!(
            runtime
                .tree()
                .expect("good paths")
                .file("opt/guest/mcp/a.py")
                .is_some()
        );
    }

    #[test]
    fn runtime_without_entry_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = Runtime::read(folder.path()).expect("readable");
        assert!(matches!(runtime.tree(), Err(Error::NoEntry)));
    }
}
