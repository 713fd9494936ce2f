//! A file system in memory: what an image will hold, before it is written.
//!
//! Nothing is ever unpacked to the host's file system from an archive: entries land here, and only where their path
//! and their link targets stay inside.

mod path;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

pub(crate) use path::{BadPath, TreePath};

/// Folders at the top that are links into `usr` in a merged layout.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// What a path holds. Modes are few on purpose: 755 and 644, 777 for links, and what folders say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A folder and its mode.
    Directory { mode: u32 },
    /// A regular file.
    File { executable: bool, data: Arc<[u8]> },
    /// A symbolic link.
    Link { target: String },
}

impl Node {
    /// An ordinary folder.
    pub(crate) const DIRECTORY: Self = Self::Directory { mode: 0o755 };

    /// A file that is not a program.
    pub(crate) fn file(data: impl Into<Arc<[u8]>>) -> Self {
        Self::File {
            executable: false,
            data: data.into(),
        }
    }
}

/// Why an entry has no place in the tree.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The path itself is bad.
    #[error(transparent)]
    Path(#[from] BadPath),
    /// Two entries claim one path.
    #[error("{path:?} is there twice")]
    Twice {
        /// Their path.
        path: String,
    },
    /// The path leads through a link or a file.
    #[error("{path:?} leads through {through:?}, which is no folder")]
    Through {
        /// The entry.
        path: String,
        /// What is in its way.
        through: String,
    },
    /// A link points outside.
    #[error("the link {path:?} points to {target:?}, outside the image")]
    Escape {
        /// The link.
        path: String,
        /// Where it points.
        target: String,
    },
    /// A hard link to what is no file of the same archive.
    #[error("{path:?} is a hard link to {target:?}, which is no file of this archive")]
    HardLink {
        /// The link.
        path: String,
        /// Its target.
        target: String,
    },
}

/// Paths and what they hold, in the order of their bytes: folders before what is in them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    nodes: BTreeMap<TreePath, Node>,
}

impl Tree {
    /// Adds an entry; folders above it come into being. Two folders are one, anything else twice is an error.
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
                    return Err(Error::Through {
                        path: path.to_string(),
                        through: ancestor.to_owned(),
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
                    return Err(Error::Twice {
                        path: occupied.key().to_string(),
                    });
                }
            },
        }
        Ok(())
    }

    /// Adds an entry that this program names.
    pub(crate) fn put(&mut self, path: &str, node: Node) -> Result<(), Error> {
        self.insert(TreePath::known(path)?, node)
    }

    /// Adds all of `other`. The same file in both is fine, two different ones are not.
    pub(crate) fn merge(&mut self, other: Self) -> Result<(), Error> {
        for (path, node) in other.nodes {
            if !matches!(node, Node::Directory { .. }) && self.nodes.get(&path) == Some(&node) {
                continue;
            }
            self.insert(path, node)?;
        }
        Ok(())
    }

    /// What `path` holds, links not followed.
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The bytes of the file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&Arc<[u8]>> {
        match self.nodes.get(path) {
            Some(Node::File { data, .. }) => Some(data),
            _ => None,
        }
    }

    /// Everything, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TreePath, &Node)> {
        self.nodes.iter()
    }

    /// Every regular file, in order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&TreePath, &Arc<[u8]>)> {
        self.nodes.iter().filter_map(|(path, node)| match node {
            Node::File { data, .. } => Some((path, data)),
            _ => None,
        })
    }

    /// Keeps the files and links that `keep` says yes to, then drops folders that are empty.
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

    /// Bytes of all files together.
    pub(crate) fn size(&self) -> u64 {
        self.files().map(|(_, data)| data.len() as u64).sum()
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// Moves what old packages put into `/lib` to `/usr/lib`; `None` for the folder `/lib` itself.
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

/// Refuses a link that points above the image's root.
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
    fn folders_come_into_being_and_merge() {
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
    fn nothing_is_replaced_or_reached_through_a_link() {
        let mut tree = Tree::default();
        tree.put("etc/x", link("../tmp")).expect("stays inside");
        assert!(matches!(
            tree.put("etc/x/y", Node::file(*b"")),
            Err(Error::Through { .. })
        ));
        assert!(matches!(
            tree.put("etc/x", Node::file(*b"")),
            Err(Error::Twice { .. })
        ));
        assert!(matches!(
            tree.put("etc/x", Node::DIRECTORY),
            Err(Error::Twice { .. })
        ));
        assert!(matches!(
            tree.put("etc", Node::file(*b"")),
            Err(Error::Twice { .. })
        ));
    }

    #[test]
    fn links_stay_inside() {
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
    fn merging_takes_equal_files_only() {
        let mut tree = Tree::default();
        tree.put("a", Node::file(*b"1")).expect("new");
        let same = tree.clone();
        tree.merge(same).expect("the same file");
        let mut other = Tree::default();
        other.put("a", Node::file(*b"2")).expect("new");
        assert_eq!(
            tree.merge(other),
            Err(Error::Twice {
                path: "a".to_owned()
            })
        );
    }

    #[test]
    fn retaining_drops_folders_left_empty() {
        let mut tree = Tree::default();
        tree.put("a/b/c", Node::file(*b"1")).expect("new");
        tree.put("a/d/e", Node::file(*b"1")).expect("new");
        tree.retain(|path| path.name() != "c");
        let paths: Vec<_> = tree.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a", "a/d", "a/d/e"]);
    }
}
