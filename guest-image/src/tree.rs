//! A file system in memory, which becomes an image.
//!
//! Archives are unpacked to it and never to the host's file system. An entry is accepted only if
//! its path and the target of its link stay inside.

mod path;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

pub(crate) use path::{BadPath, TreePath};

/// Top-level folders that are links into `usr` in a merged layout.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// What is at a path. Files have mode 755 or 644, links 777, and only folders may have others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Directory {
        mode: u32,
    },
    File {
        executable: bool,
        data: Arc<[u8]>,
    },
    /// A symbolic link.
    Link {
        target: String,
    },
}

impl Node {
    pub(crate) const DIRECTORY: Self = Self::Directory { mode: 0o755 };

    /// A file that is not executable.
    pub(crate) fn file(data: impl Into<Arc<[u8]>>) -> Self {
        Self::File {
            executable: false,
            data: data.into(),
        }
    }
}

/// Why an entry cannot be added to the tree.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error(transparent)]
    Path(#[from] BadPath),
    #[error("{path:?} occurs twice")]
    Duplicate { path: String },
    #[error("{path:?} is below {ancestor:?}, which is not a folder")]
    NotAFolder { path: String, ancestor: String },
    #[error("the link {path:?} points to {target:?}, outside the image")]
    Escape { path: String, target: String },
    #[error("{path:?} is a hard link to {target:?}, which is not an earlier file of the archive")]
    HardLink { path: String, target: String },
}

/// All paths in the order of their bytes, so that folders come before their content.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    nodes: BTreeMap<TreePath, Node>,
}

impl Tree {
    /// Adds an entry, and the folders above it. A folder may be added again, anything else may not.
    pub(crate) fn insert(&mut self, path: TreePath, node: Node) -> Result<(), Error> {
        let Some(path) = merged(path, &node)? else {
            return Ok(());
        };
        if let Node::Link { target } = &node {
            check_target(&path, target)?;
        }
        for ancestor in path.ancestors() {
            match self.nodes.get(ancestor) {
                Some(Node::Directory { .. }) => {}
                Some(_) => {
                    return Err(Error::NotAFolder {
                        path: path.to_string(),
                        ancestor: ancestor.to_owned(),
                    });
                }
                None => {
                    self.nodes
                        .insert(TreePath::known(ancestor)?, Node::DIRECTORY);
                }
            }
        }
        match self.nodes.entry(path) {
            Entry::Vacant(vacant) => {
                vacant.insert(node);
            }
            Entry::Occupied(mut occupied) => match (occupied.get(), &node) {
                (Node::Directory { .. }, Node::Directory { .. }) => {
                    occupied.insert(node);
                }
                _ => {
                    return Err(Error::Duplicate {
                        path: occupied.key().to_string(),
                    });
                }
            },
        }
        Ok(())
    }

    /// Adds an entry at a path that this program chose.
    pub(crate) fn put(&mut self, path: &str, node: Node) -> Result<(), Error> {
        self.insert(TreePath::known(path)?, node)
    }

    /// Adds all entries of `other`. Both may have the same file, but not different ones at one
    /// path.
    pub(crate) fn merge(&mut self, other: Self) -> Result<(), Error> {
        for (path, node) in other.nodes {
            if !matches!(node, Node::Directory { .. }) && self.nodes.get(&path) == Some(&node) {
                continue;
            }
            self.insert(path, node)?;
        }
        Ok(())
    }

    /// What is at `path`; links are not followed.
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The content of the file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&Arc<[u8]>> {
        match self.nodes.get(path) {
            Some(Node::File { data, .. }) => Some(data),
            _ => None,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TreePath, &Node)> {
        self.nodes.iter()
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&TreePath, &Arc<[u8]>)> {
        self.nodes.iter().filter_map(|(path, node)| match node {
            Node::File { data, .. } => Some((path, data)),
            _ => None,
        })
    }

    /// Keeps the files and links for which `keep` is true, then removes empty folders.
    pub(crate) fn retain(&mut self, keep: impl Fn(&TreePath) -> bool) {
        self.nodes
            .retain(|path, node| matches!(node, Node::Directory { .. }) || keep(path));
        let mut used = std::collections::BTreeSet::new();
        for (path, node) in &self.nodes {
            if !matches!(node, Node::Directory { .. }) {
                used.extend(path.ancestors().map(str::to_owned));
            }
        }
        self.nodes.retain(|path, node| {
            !matches!(node, Node::Directory { .. }) || used.contains(path.as_str())
        });
    }

    /// The size of all files, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.files().map(|(_, data)| data.len() as u64).sum()
    }

    /// The number of files, folders and links.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// Moves `/lib/x` of old packages to `/usr/lib/x`; `None` for the folder `/lib` itself.
fn merged(path: TreePath, node: &Node) -> Result<Option<TreePath>, BadPath> {
    let top = path.ancestors().next().unwrap_or(path.as_str());
    if !MERGED.contains(&top) {
        return Ok(Some(path));
    }
    if path.parent().is_none() {
        return Ok((!matches!(node, Node::Directory { .. })).then_some(path));
    }
    TreePath::known(&format!("usr/{path}")).map(Some)
}

/// Rejects a link that points above the root of the image.
fn check_target(path: &TreePath, target: &str) -> Result<(), Error> {
    let escape = || Error::Escape {
        path: path.to_string(),
        target: target.chars().take(200).collect(),
    };
    if target.is_empty() || target.len() > 1024 || target.contains('\0') {
        return Err(escape());
    }
    let mut depth = if target.starts_with('/') {
        0
    } else {
        path.ancestors().count()
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.checked_sub(1).ok_or_else(escape)?,
            _ => depth += 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(target: &str) -> Node {
        Node::Link {
            target: target.to_owned(),
        }
    }

    #[test]
    fn folders_are_created_and_merged() {
        let mut tree = Tree::default();
        tree.put("usr/lib/a", Node::file(*b"a")).expect("new");
        tree.put("usr/lib", Node::DIRECTORY)
            .expect("a folder twice is one");
        tree.put("lib/b", Node::file(*b"b"))
            .expect("merged into usr");
        tree.put("lib", Node::DIRECTORY)
            .expect("the folder itself vanishes");
        let paths: Vec<_> = tree.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["usr", "usr/lib", "usr/lib/a", "usr/lib/b"]);
    }

    #[test]
    fn no_entry_is_replaced_or_added_below_a_link() {
        let mut tree = Tree::default();
        tree.put("etc/x", link("../tmp")).expect("stays inside");
        assert!(matches!(
            tree.put("etc/x/y", Node::file(*b"")),
            Err(Error::NotAFolder { .. })
        ));
        assert!(matches!(
            tree.put("etc/x", Node::file(*b"")),
            Err(Error::Duplicate { .. })
        ));
        assert!(matches!(
            tree.put("etc/x", Node::DIRECTORY),
            Err(Error::Duplicate { .. })
        ));
        assert!(matches!(
            tree.put("etc", Node::file(*b"")),
            Err(Error::Duplicate { .. })
        ));
    }

    #[test]
    fn links_that_point_outside_are_rejected() {
        let mut tree = Tree::default();
        for good in ["x", "/etc/x", "../x", "../../tree", "/a/../b"] {
            tree.put(&format!("a/b/{}", good.len()), link(good))
                .expect(good);
        }
        for bad in ["../../../x", "/..", "", "x/../../../..", "a\0b"] {
            assert!(
                matches!(tree.put("a/b/z", link(bad)), Err(Error::Escape { .. })),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn different_files_at_one_path_are_rejected() {
        let mut tree = Tree::default();
        tree.put("a", Node::file(*b"1")).expect("new");
        let same = tree.clone();
        tree.merge(same).expect("the same file");
        let mut other = Tree::default();
        other.put("a", Node::file(*b"2")).expect("new");
        assert_eq!(
            tree.merge(other),
            Err(Error::Duplicate {
                path: "a".to_owned()
            })
        );
    }

    #[test]
    fn empty_folders_are_removed() {
        let mut tree = Tree::default();
        tree.put("a/b/c", Node::file(*b"1")).expect("new");
        tree.put("a/d/e", Node::file(*b"1")).expect("new");
        tree.retain(|path| path.name() != "c");
        let paths: Vec<_> = tree.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a", "a/d", "a/d/e"]);
    }
}
