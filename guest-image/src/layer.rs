//! Writes a tree as an uncompressed tar layer: sorted, owned by root, all with one time, so that
//! the same tree gives the same bytes.

use std::io;

use crate::tree::{Node, Tree};

/// Modification time of everything in the image, in seconds since 1970; some tools take 0 for
/// "unknown".
pub(crate) const TIME: u64 = 1;

/// Writes the layer to memory.
pub(crate) fn write(tree: &Tree) -> io::Result<Vec<u8>> {
    let room = usize::try_from(tree.size()).unwrap_or(0) + 1024 * tree.len();
    let mut builder = tar::Builder::new(Vec::with_capacity(room));
    for (path, node) in tree.iter() {
        match node {
            Node::Directory { mode } => {
                let mut header = header(tar::EntryType::Directory, *mode, 0);
                builder.append_data(&mut header, format!("{path}/"), io::empty())?;
            }
            Node::File { executable, data } => {
                let mode = if *executable { 0o755 } else { 0o644 };
                let mut header = header(tar::EntryType::Regular, mode, data.len() as u64);
                builder.append_data(&mut header, path.as_str(), &data[..])?;
            }
            Node::Link { target } => {
                let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                builder.append_link(&mut header, path.as_str(), target)?;
            }
        }
    }
    builder.into_inner()
}

/// A tar header that holds nothing of this machine.
pub(crate) fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(TIME);
    header.set_size(size);
    header
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;
    use crate::tree::TreePath;

    fn read_back(layer: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut archive = tar::Archive::new(layer);
        let entries = archive.entries().expect("a tar");
        entries
            .map(|entry| {
                let mut entry = entry.expect("an entry");
                let path = String::from_utf8(entry.path_bytes().into_owned()).expect("UTF-8");
                let mut data = entry.link_name_bytes().unwrap_or_default().into_owned();
                entry.read_to_end(&mut data).expect("data");
                let header = entry.header();
                assert_eq!(header.mtime().expect("a time"), TIME);
                assert_eq!(
                    (header.uid().expect("a uid"), header.gid().expect("a gid")),
                    (0, 0)
                );
                (path, header.mode().expect("a mode"), data)
            })
            .collect()
    }

    #[test]
    fn entries_are_sorted_with_their_modes() {
        let mut tree = Tree::default();
        tree.put(
            "b",
            Node::File {
                executable: true,
                data: (*b"x").into(),
            },
        )
        .expect("new");
        tree.put(
            "a/c",
            Node::Link {
                target: "../b".to_owned(),
            },
        )
        .expect("new");
        tree.put("tmp", Node::Directory { mode: 0o1777 })
            .expect("new");
        let expected = [
            ("a/".to_owned(), 0o755, vec![]),
            ("a/c".to_owned(), 0o777, b"../b".to_vec()),
            ("b".to_owned(), 0o755, b"x".to_vec()),
            ("tmp/".to_owned(), 0o1777, vec![]),
        ];
        assert_eq!(read_back(&write(&tree).expect("in memory")), expected);
    }

    proptest! {
        #[test]
        fn any_tree_can_be_read_back(
            files in prop::collection::btree_map(
                "[a-z]{1,120}(/[a-z]{1,120}){0,3}",
                prop::collection::vec(any::<u8>(), 0..600),
                0..6,
            ),
        ) {
            let mut tree = Tree::default();
            for (path, data) in files {
                // Fails where one path is a folder of another.
                let _ = tree.insert(TreePath::known(&path).expect("a good path"), Node::file(data));
            }
            let layer = write(&tree).expect("in memory");
            prop_assert_eq!(layer.len() % 512, 0);
            let entries = read_back(&layer).into_iter();
            let files = entries.filter(|(path, ..)| !path.ends_with('/'));
            let found: Vec<_> = files.map(|(path, _, data)| (path, data)).collect();
            let files = tree.files();
            let expected: Vec<_> = files
                .map(|(path, data)| (path.to_string(), data.to_vec()))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
