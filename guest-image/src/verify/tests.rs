use super::*;
use crate::layer;
use crate::layout::{Image, blob_path};
use crate::progress::Silent;
use crate::tree::{Node, Tree};

const AMD64: u8 = 62;
const ARM64: u8 = 183;

/// A small image for amd64 whose Python is for the machine with this ELF number.
fn image(machine: u8) -> Image {
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
    elf.extend_from_slice(&[machine, 0]);
    let mut tree = Tree::default();
    tree.put(PYTHON, Node::file(elf)).unwrap();
    let runtime = layer::write(&Tree::default()).unwrap();
    Image::new(
        "base",
        Architecture::Amd64,
        vec![(layer::write(&tree).unwrap(), "a"), (runtime, "b")],
    )
    .unwrap()
}

fn bytes(image: &Image) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.write(&mut bytes).unwrap();
    bytes
}

fn open(bytes: &[u8]) -> Archive {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    Archive::open(file.path()).unwrap()
}

fn inspect(bytes: &[u8], expected: &Digests) -> Result<Verified, Error> {
    open(bytes).inspect(expected, &Silent)
}

fn verify(bytes: &[u8], expected: &Digests) -> Result<Verified, Error> {
    open(bytes).verify(expected, &Silent)
}

/// The files of an archive by name, with headers that say what they are.
type Entries = Vec<(tar::Header, String, Vec<u8>)>;

fn entries(image: &Image) -> Entries {
    let bytes = bytes(image);
    let mut tar = tar::Archive::new(&*bytes);
    let entries = tar.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut data = Vec::new();
        io::Read::read_to_end(&mut entry, &mut data).unwrap();
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        (entry.header().clone(), name, data)
    });
    entries.collect()
}

fn packed(entries: Entries) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (mut header, name, data) in entries {
        header.set_size(data.len() as u64);
        tar.append_data(&mut header, name, &*data).unwrap();
    }
    tar.into_inner().unwrap()
}

/// The archive of `image` with one of its JSON files changed.
fn with_text(image: &Image, name: &str, change: impl Fn(String) -> String) -> Vec<u8> {
    let mut entries = entries(image);
    let (_, _, data) = entries.iter_mut().find(|it| it.1 == name).unwrap();
    let text = String::from_utf8(data.clone()).unwrap();
    let changed = change(text.clone());
    assert_ne!(changed, text);
    *data = changed.into_bytes();
    packed(entries)
}

/// The archive of `image` with one more file.
fn with_file(image: &Image, name: &str, data: &[u8]) -> Vec<u8> {
    let mut entries = entries(image);
    let header = layer::header(tar::EntryType::Regular, 0o644, 0);
    entries.push((header, name.to_owned(), data.to_vec()));
    packed(entries)
}

#[track_caller]
fn assert_mismatch(result: Result<Verified, Error>, part: &str) {
    match result {
        Err(Error::Mismatch { what, .. }) => assert_eq!(what, part),
        other => panic!("{part}: {other:?}"),
    }
}

#[track_caller]
fn assert_foreign(result: &Result<Verified, Error>) {
    assert!(matches!(result, Err(Error::Foreign(_))), "{result:?}");
}

#[test]
fn archive_of_the_image_is_accepted() {
    let image = image(AMD64);
    let verified = verify(&bytes(&image), image.digests()).unwrap();
    assert_eq!((verified.blobs, verified.python), (4, None));
    let inspected = inspect(&bytes(&image), image.digests()).unwrap();
    assert_eq!(inspected.blobs, 4);
    assert_eq!(inspected.python, Some(Architecture::Amd64));
    let repacked = packed(entries(&image));
    assert_eq!(repacked, bytes(&image), "as the other tests assume");
}

#[test]
fn one_changed_bit_anywhere_in_a_file_is_found() {
    let image = image(AMD64);
    let whole = bytes(&image);
    let mut tar = tar::Archive::new(whole.as_slice());
    let files: Vec<_> = tar
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.size() > 0)
        .map(|entry| {
            (
                entry.raw_file_position(),
                entry.size(),
                entry.path_bytes().into_owned(),
            )
        })
        .collect();
    assert_eq!(files.len(), 7);
    for (start, size, name) in files {
        for at in [start, start + size / 2, start + size - 1] {
            let mut changed = whole.clone();
            changed[usize::try_from(at).unwrap()] ^= 1;
            let result = inspect(&changed, image.digests());
            let name = String::from_utf8_lossy(&name);
            // The tag in these two is covered by no digest.
            let has_tag = name == "index.json" || name == "manifest.json";
            assert!(
                result.is_err() || has_tag,
                "{name} changed at {at} of {size}"
            );
        }
    }
}

#[test]
fn archive_of_another_image_is_rejected() {
    let image = image(AMD64);
    let whole = bytes(&image);
    let mut other = image.digests().clone();
    other.config = other.manifest.clone();
    assert_mismatch(verify(&whole, &other), "config");
    let mut other = image.digests().clone();
    other.manifest = other.config.clone();
    assert_mismatch(verify(&whole, &other), "manifest");
    let mut other = image.digests().clone();
    other.diff_ids.reverse();
    assert_mismatch(verify(&whole, &other), "layers");
    let mut other = image.digests().clone();
    other.architecture = "arm64".to_owned();
    assert_mismatch(verify(&whole, &other), "architecture");
}

#[test]
fn python_for_another_architecture_is_rejected() {
    let image = image(ARM64);
    let result = inspect(&bytes(&image), image.digests());
    assert_mismatch(result, "architecture of Python");
    verify(&bytes(&image), image.digests()).expect("layers are only hashed");
}

#[test]
fn archive_whose_two_tables_of_contents_differ_is_rejected() {
    let image = image(AMD64);
    let digests = image.digests();
    let other = crate::sha256::digest(b"other");
    let wrong_index = with_text(&image, "index.json", |text| {
        text.replace(&digests.manifest, &other)
    });
    assert_mismatch(verify(&wrong_index, digests), "manifest");
    let second = with_text(&image, "index.json", |text| {
        let (start, end) = text.split_at(text.find("{\"annotations").unwrap());
        format!("{start}{{\"digest\":\"{other}\"}},{end}")
    });
    assert_mismatch(verify(&second, digests), "manifest");
    let (config, other) = (blob_path(&digests.config), blob_path(&other));
    let wrong_list = with_text(&image, "manifest.json", |text| {
        text.replace(&config, &other)
    });
    assert_mismatch(verify(&wrong_list, digests), "config in manifest.json");
    let layer = blob_path(&digests.diff_ids[1]);
    let wrong_layer = with_text(&image, "manifest.json", |text| text.replace(&layer, &other));
    assert_mismatch(verify(&wrong_layer, digests), "layers in manifest.json");
    for name in ["index.json", "manifest.json", "oci-layout"] {
        let mut entries = entries(&image);
        entries.retain(|entry| entry.1 != name);
        let result = verify(&packed(entries), digests);
        assert!(matches!(result, Err(Error::Missing(missing)) if missing == name));
    }
}

#[test]
fn json_that_go_reads_differently_is_rejected() {
    let image = image(AMD64);
    for (name, from, to) in [
        (
            "manifest.json",
            "\"Config\":",
            "\"config\":\"x\",\"Config\":",
        ),
        (
            "manifest.json",
            "\"Layers\":",
            "\"Layer\u{17f}\":[],\"Layers\":",
        ),
        (
            "index.json",
            "\"manifests\":",
            "\"Manifests\":[],\"manifests\":",
        ),
    ] {
        let changed = with_text(&image, name, |text| text.replacen(from, to, 1));
        let result = verify(&changed, image.digests());
        assert!(
            matches!(result, Err(Error::AmbiguousJson { .. })),
            "{to}: {result:?}"
        );
    }
    let twice = with_text(&image, "manifest.json", |text| {
        text.replacen("\"Config\":", "\"Config\":\"x\",\"Config\":", 1)
    });
    let result = verify(&twice, image.digests());
    assert!(matches!(result, Err(Error::Json { .. })), "{result:?}");
}

#[test]
fn files_that_do_not_belong_in_an_archive_are_rejected() {
    let image = image(AMD64);
    let digests = image.digests();
    let blob = format!("blobs/sha256/{}", crate::sha256::hex_digest(b"x"));
    for name in [&blob, "repositories", "./manifest.json", "blobs/sha256/x"] {
        assert_foreign(&verify(&with_file(&image, name, b"x"), digests));
    }
    assert_foreign(&verify(&with_file(&image, "manifest.json", b"[]"), digests));
    let mut data = bytes(&image);
    data.extend_from_slice(&bytes(&image));
    assert_foreign(&verify(&data, digests));
}

#[test]
fn links_and_tar_extensions_are_rejected() {
    let image = image(AMD64);
    for kind in [
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::XHeader,
        tar::EntryType::XGlobalHeader,
        tar::EntryType::GNULongName,
        tar::EntryType::GNUSparse,
    ] {
        let mut entries = entries(&image);
        let header = layer::header(kind, 0o644, 0);
        entries.insert(0, (header, "oci-layout".to_owned(), Vec::new()));
        assert_foreign(&verify(&packed(entries), image.digests()));
    }
}

#[test]
fn truncated_and_other_files_are_rejected() {
    let image = image(AMD64);
    let whole = bytes(&image);
    for length in [0, 100, 512, whole.len() / 2, whole.len() - 3000] {
        assert!(
            verify(&whole[..length], image.digests()).is_err(),
            "{length}"
        );
    }
    let noise: Vec<u8> = (0..=255).rev().cycle().take(4096).collect();
    for other in [
        &b"PK\x03\x04"[..],
        &noise,
        &b"not a tar archive ".repeat(80),
    ] {
        assert!(matches!(verify(other, image.digests()), Err(Error::NotTar)));
    }
    for path in ["/nonexistent", "/", "/dev/null"] {
        let result = Archive::open(Path::new(path));
        assert!(matches!(result, Err(Error::Read { .. })), "{path}");
    }
}

#[test]
fn verified_file_is_read_even_if_its_path_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guest.tar");
    let image = image(AMD64);
    std::fs::write(&path, bytes(&image)).unwrap();
    let mut archive = Archive::open(&path).unwrap();
    archive.verify(image.digests(), &Silent).unwrap();
    let other = folder.path().join("other.tar");
    std::fs::write(&other, b"another image").unwrap();
    std::fs::rename(&other, &path).unwrap();
    let mut read = Vec::new();
    io::Read::read_to_end(&mut archive.into_file().unwrap(), &mut read).unwrap();
    assert_eq!(read, bytes(&image));
}
