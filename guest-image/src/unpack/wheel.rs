//! Unpacks wheels, zip archives whose files go to `site-packages` as they are. No code of a wheel
//! is run.

use std::io::Cursor;

use super::{Error, UnpackLimits, read_exactly};
use crate::tree::{Node, Tree, TreePath};

/// The folder of wheels in the image.
pub(crate) const SITE_PACKAGES: &str = "usr/lib/python3.14/site-packages";

/// The files of a wheel, below [`SITE_PACKAGES`]. Scripts and headers in its `*.data` folder are
/// left out, as a guest has no use for them.
pub(crate) fn unpack_wheel(wheel: &[u8], limits: UnpackLimits) -> Result<Tree, Error> {
    let mut archive = zip::ZipArchive::new(Cursor::new(wheel)).map_err(Error::Zip)?;
    if archive.len() > limits.entries {
        return Err(Error::TooMuch {
            limit: limits.entries as u64,
            what: "entries",
        });
    }
    if archive.has_duplicate_names() || archive.has_overlapping_files().map_err(Error::Zip)? {
        return Err(Error::Wheel("two entries have the same name or data"));
    }
    let mut tree = Tree::default();
    let mut total = 0_u64;
    let mut has_metadata = false;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(Error::Zip)?;
        let Some(path) = TreePath::parse(entry.name_raw())? else {
            return Err(Error::Wheel("an entry has no name"));
        };
        if entry.is_dir() {
            continue;
        }
        // A wheel must not have symbolic links or encrypted files.
        if entry.is_symlink() || entry.encrypted() {
            return Err(Error::Special {
                path: path.to_string(),
            });
        }
        let Some(place) = placed(path.as_str()) else {
            continue;
        };
        has_metadata |= place.ends_with(".dist-info/METADATA");
        let executable = entry.unix_mode().is_some_and(|mode| mode & 0o100 != 0);
        let size = entry.size();
        total = total.saturating_add(size);
        if total > limits.total_bytes {
            return Err(Error::TooMuch {
                limit: limits.total_bytes,
                what: "bytes",
            });
        }
        let data = read_exactly(&mut entry, size, limits)?;
        let node = Node::File {
            executable,
            data: data.into(),
        };
        tree.insert(TreePath::known(&format!("{SITE_PACKAGES}/{place}"))?, node)?;
    }
    if !has_metadata {
        return Err(Error::Wheel("it has no METADATA"));
    }
    Ok(tree)
}

/// The path of an entry below `site-packages`; `None` if it is left out.
fn placed(path: &str) -> Option<&str> {
    let Some((top, rest)) = path.split_once('/') else {
        return Some(path);
    };
    if top.rsplit_once('.').is_none_or(|(_, end)| end != "data") {
        return Some(path);
    }
    rest.strip_prefix("purelib/")
        .or_else(|| rest.strip_prefix("platlib/"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;
    use zip::write::SimpleFileOptions;

    use super::*;

    const SMALL: UnpackLimits = UnpackLimits {
        entries: 20,
        file_bytes: 1000,
        total_bytes: 5000,
    };

    fn wheel(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, data) in entries {
            writer
                .start_file(*name, SimpleFileOptions::default())
                .expect("in memory");
            writer.write_all(data).expect("in memory");
        }
        writer.finish().expect("in memory").into_inner()
    }

    const METADATA: (&str, &[u8]) = ("x-1.dist-info/METADATA", b"Name: x\n");

    #[test]
    fn files_are_placed_below_site_packages() {
        let wheel = wheel(&[
            METADATA,
            ("x/__init__.py", b"1"),
            ("x-1.data/purelib/y.py", b"2"),
            ("x-1.data/scripts/run", b"3"),
        ]);
        let tree = unpack_wheel(&wheel, SMALL).expect("a good wheel");
        let files: Vec<_> = tree
            .files()
            .map(|(path, _)| &path.as_str()[SITE_PACKAGES.len() + 1..])
            .collect();
        assert_eq!(files, ["x-1.dist-info/METADATA", "x/__init__.py", "y.py"]);
    }

    #[test]
    fn hostile_wheels_are_rejected() {
        assert!(unpack_wheel(b"PK", SMALL).is_err());
        assert!(
            unpack_wheel(&wheel(&[("x.py", b"")]), SMALL).is_err(),
            "no metadata"
        );
        assert!(unpack_wheel(&wheel(&[METADATA, ("../../x.py", b"")]), SMALL).is_err());
        assert!(unpack_wheel(&wheel(&[METADATA, ("/etc/x.py", b"")]), SMALL).is_err());
        assert!(unpack_wheel(&wheel(&[METADATA, ("x.py", &[0; 1001])]), SMALL).is_err());
        let names: Vec<String> = (0..6).map(|n| format!("f{n}")).collect();
        let large: Vec<(&str, &[u8])> = names
            .iter()
            .map(|name| (name.as_str(), &[0; 1000][..]))
            .collect();
        assert!(matches!(
            unpack_wheel(&wheel(&large), SMALL),
            Err(Error::TooMuch { what: "bytes", .. })
        ));
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        writer
            .add_symlink("x", "/etc/passwd", SimpleFileOptions::default())
            .expect("in memory");
        let linked = writer.finish().expect("in memory").into_inner();
        assert!(matches!(
            unpack_wheel(&linked, SMALL),
            Err(Error::Special { .. })
        ));
    }

    #[test]
    fn duplicate_names_are_rejected() {
        let mut wheel = wheel(&[METADATA, ("a.py", b"1"), ("b.py", b"2")]);
        for at in 0..wheel.len() - 4 {
            if &wheel[at..at + 4] == b"b.py" {
                wheel[at] = b'a';
            }
        }
        assert!(unpack_wheel(&wheel, SMALL).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(at in 0..400_usize, byte: u8, cut in 0..400_usize) {
            let mut bytes = wheel(&[METADATA, ("x/__init__.py", b"print(1)")]);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = unpack_wheel(&bytes, SMALL);
            bytes.truncate(cut);
            let _ = unpack_wheel(&bytes, SMALL);
        }
    }
}
