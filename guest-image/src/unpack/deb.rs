//! Unpacks Debian packages: their `data.tar`, plain or compressed with gzip, xz or zstd.

use std::io::Read;

use super::{Bounded, Error, UnpackLimits, ar, read_exactly};
use crate::tree::{self, Node, Tree, TreePath};

/// The most memory that decoders may use for their window.
const WINDOW_BYTES: u32 = 128 << 20;

/// The files of a package. Its maintainer scripts are not read.
pub(crate) fn unpack_deb(package: &[u8], limits: UnpackLimits) -> Result<Tree, Error> {
    let members = ar::members(package)?;
    match members.first() {
        Some(first) if first.name == "debian-binary" && first.data.starts_with(b"2.") => {}
        _ => return Err(Error::Deb("its format is not version 2")),
    }
    let mut data = members
        .iter()
        .filter(|member| member.name.starts_with("data.tar"));
    let (Some(member), None) = (data.next(), data.next()) else {
        return Err(Error::Deb("it does not have one data.tar"));
    };
    let stream: Box<dyn Read + '_> = match &member.name["data.tar".len()..] {
        "" => Box::new(member.data),
        ".gz" => Box::new(flate2::read::MultiGzDecoder::new(member.data)),
        ".xz" => Box::new(lzma_rust2::XzReader::new_mem_limit(
            member.data,
            true,
            WINDOW_BYTES / 1024,
        )),
        ".zst" => Box::new(
            ruzstd::decoding::StreamingDecoder::new_with_max_window_size(
                member.data,
                WINDOW_BYTES.into(),
            )
            .map_err(|error| Error::Data(std::io::Error::other(error)))?,
        ),
        _ => return Err(Error::Deb("its data.tar is compressed in an unknown way")),
    };
    unpack_tar(Bounded::new(stream, limits.total_bytes), limits)
}

fn unpack_tar(stream: impl Read, limits: UnpackLimits) -> Result<Tree, Error> {
    let mut archive = tar::Archive::new(stream);
    let mut tree = Tree::default();
    let mut total = 0_u64;
    for (count, entry) in archive.entries().map_err(Error::Data)?.enumerate() {
        let mut entry = entry.map_err(Error::Data)?;
        if count >= limits.entries {
            return Err(Error::TooMuch {
                limit: limits.entries as u64,
                what: "entries",
            });
        }
        let Some(path) = TreePath::parse(&entry.path_bytes())? else {
            continue;
        };
        // Hard links count as files below, as a small archive can link one large file many times.
        let node = match entry.header().entry_type() {
            tar::EntryType::Directory => Node::DIRECTORY,
            tar::EntryType::Regular => {
                let mode = entry.header().mode().map_err(Error::Data)?;
                let size = entry.size();
                let data = read_exactly(&mut entry, size, limits)?;
                Node::File {
                    executable: mode & 0o100 != 0,
                    data: data.into(),
                }
            }
            tar::EntryType::Symlink => Node::Link {
                target: link_target(&entry)?,
            },
            tar::EntryType::Link => hard_link(&tree, &path, &link_target(&entry)?)?,
            _ => {
                return Err(Error::Special {
                    path: path.to_string(),
                });
            }
        };
        if let Node::File { data, .. } = &node {
            total += data.len() as u64;
        }
        if total > limits.total_bytes {
            return Err(Error::TooMuch {
                limit: limits.total_bytes,
                what: "bytes",
            });
        }
        tree.insert(path, node)?;
    }
    Ok(tree)
}

fn link_target(entry: &tar::Entry<'_, impl Read>) -> Result<String, Error> {
    let target = entry.link_name_bytes().unwrap_or_default();
    String::from_utf8(target.into_owned()).map_err(|_| Error::Deb("a link's target is not UTF-8"))
}

/// The target of a hard link, which must come earlier in the same archive.
fn hard_link(tree: &Tree, path: &TreePath, target: &str) -> Result<Node, Error> {
    let file = TreePath::parse(target.as_bytes())?.and_then(|target| tree.get(target.as_str()));
    match file {
        Some(node @ Node::File { .. }) => Ok(node.clone()),
        _ => Err(Error::Entry(tree::Error::HardLink {
            path: path.to_string(),
            target: target.to_owned(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;
    use crate::unpack::ar::tests::write as write_ar;

    const SMALL: UnpackLimits = UnpackLimits {
        entries: 20,
        file_bytes: 1000,
        total_bytes: 20_000,
    };

    /// A tar header with any name, also an invalid one.
    fn header(name: &str, kind: tar::EntryType, size: u64, link: &str) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o755);
        header.set_cksum();
        header
    }

    fn tar_of(entries: &[(tar::Header, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (header, data) in entries {
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(data);
            bytes.resize(bytes.len().next_multiple_of(512), 0);
        }
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }

    fn deb(name: &str, data: &[u8]) -> Vec<u8> {
        write_ar(&[
            ("debian-binary", b"2.0\n"),
            ("control.tar.xz", b""),
            (name, data),
        ])
    }

    fn unpack(entries: &[(tar::Header, &[u8])]) -> Result<Tree, Error> {
        unpack_deb(&deb("data.tar", &tar_of(entries)), SMALL)
    }

    fn file(name: &str, data: &'static [u8]) -> (tar::Header, &'static [u8]) {
        (
            header(name, tar::EntryType::Regular, data.len() as u64, ""),
            data,
        )
    }

    #[test]
    fn every_compression_gives_the_same_tree() {
        let tar = tar_of(&[file("./usr/x", b"hello")]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).expect("in memory");
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1))
            .expect("options");
        xz.write_all(&tar).expect("in memory");
        let zstd = ruzstd::encoding::compress_to_vec(
            tar.as_slice(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        for (name, data) in [
            ("data.tar", tar.clone()),
            ("data.tar.gz", gzip.finish().expect("in memory")),
            ("data.tar.xz", xz.finish().expect("in memory")),
            ("data.tar.zst", zstd),
        ] {
            let tree = unpack_deb(&deb(name, &data), SMALL).expect(name);
            assert_eq!(
                tree.file("usr/x").map(|data| data.to_vec()),
                Some(b"hello".to_vec()),
                "{name}"
            );
            let cut = unpack_deb(&deb(name, &data[..data.len() / 2]), SMALL);
            assert!(name == "data.tar" || cut.is_err(), "{name} truncated");
        }
    }

    #[test]
    fn decompression_bombs_are_rejected() {
        let zeros = vec![0_u8; 10 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(header("x", tar::EntryType::Regular, 900, "").as_bytes())
            .expect("in memory");
        gzip.write_all(&zeros).expect("in memory");
        let result = unpack_deb(
            &deb("data.tar.gz", &gzip.finish().expect("in memory")),
            SMALL,
        );
        // Zeros after the first file end the archive early; they do not if they belong to a file.
        assert!(result.is_ok_and(|tree| tree.size() == 900));
        let huge = header("x", tar::EntryType::Regular, 1 << 40, "");
        assert!(matches!(
            unpack(&[(huge, b"x")]),
            Err(Error::TooMuch { .. })
        ));
        let long_name = header("././@LongLink", tar::EntryType::GNULongName, 1 << 30, "");
        assert!(unpack(&[(long_name, &vec![b'a'; 30_000])]).is_err());
        let many: Vec<_> = (0..21)
            .map(|n| {
                (
                    header(&format!("f{n}"), tar::EntryType::Directory, 0, ""),
                    &b""[..],
                )
            })
            .collect();
        assert!(matches!(
            unpack(&many),
            Err(Error::TooMuch {
                what: "entries",
                ..
            })
        ));
        let mut links = vec![file("f", &[7; 1000])];
        links.extend((0..19).map(|n| {
            (
                header(&format!("l{n}"), tar::EntryType::Link, 0, "f"),
                &b""[..],
            )
        }));
        let small = UnpackLimits {
            total_bytes: 15_000,
            ..SMALL
        };
        let result = unpack_deb(&deb("data.tar", &tar_of(&links)), small);
        assert!(
            matches!(result, Err(Error::TooMuch { what: "bytes", .. })),
            "{result:?}"
        );
    }

    #[test]
    fn entries_outside_the_image_are_rejected() {
        assert!(unpack(&[file("../x", b"")]).is_err());
        assert!(unpack(&[file("/etc/x", b"")]).is_err());
        assert!(unpack(&[(header("x", tar::EntryType::Symlink, 0, "../etc"), b"")]).is_err());
        assert!(unpack(&[(header("x", tar::EntryType::Link, 0, "/etc/passwd"), b"")]).is_err());
        assert!(
            unpack(&[
                (header("x", tar::EntryType::Link, 0, "y"), b""),
                file("y", b"")
            ])
            .is_err()
        );
        let through = [
            (header("x", tar::EntryType::Symlink, 0, "/tmp"), &b""[..]),
            file("x/y", b""),
        ];
        assert!(unpack(&through).is_err());
        assert!(unpack(&[file("x", b"1"), file("x", b"2")]).is_err());
        for kind in [
            tar::EntryType::Char,
            tar::EntryType::Block,
            tar::EntryType::Fifo,
        ] {
            assert!(matches!(
                unpack(&[(header("x", kind, 0, ""), b"")]),
                Err(Error::Special { .. })
            ));
        }
    }

    #[test]
    fn packages_without_one_known_data_tar_are_rejected() {
        assert!(unpack_deb(&write_ar(&[("debian-binary", b"3.0\n")]), SMALL).is_err());
        assert!(unpack_deb(&write_ar(&[("debian-binary", b"2.0\n")]), SMALL).is_err());
        assert!(unpack_deb(&deb("data.tar.lzma", b""), SMALL).is_err());
        let two = write_ar(&[
            ("debian-binary", b"2.0\n"),
            ("data.tar", b""),
            ("data.tar.gz", b""),
        ]);
        assert!(unpack_deb(&two, SMALL).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000), kind in 0..4_usize) {
            let name = ["data.tar", "data.tar.gz", "data.tar.xz", "data.tar.zst"][kind];
            let _ = unpack_deb(&deb(name, &bytes), SMALL);
        }

        #[test]
        fn damaged_headers_never_panic_or_escape(at in 0..3000_usize, byte: u8) {
            let mut tar = tar_of(&[
                file("usr/a", b"1"),
                (header("usr/l", tar::EntryType::Symlink, 0, "a"), b""),
                (header("usr/h", tar::EntryType::Link, 0, "usr/a"), b""),
            ]);
            let at = at % tar.len();
            tar[at] = byte;
            if let Ok(tree) = unpack_deb(&deb("data.tar", &tar), SMALL) {
                for (path, _) in tree.iter() {
                    prop_assert!(!path.as_str().split('/').any(|part| part == ".."));
                }
            }
        }
    }
}
