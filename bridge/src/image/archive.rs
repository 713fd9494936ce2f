//! An image archive on this machine, verified before it is given to the engine: every blob is what its name says, and the
//! blobs of the lock are all there. The engine's own verification comes after; this one says what is wrong with a file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Error, Expected, Tell};

/// More files than any image archive has.
const MAX_ENTRIES: usize = 4096;
/// The largest index that is read.
const MAX_INDEX_BYTES: u64 = 1 << 20;
const PIECE_BYTES: usize = 256 << 10;

/// One image in Docker's `manifest.json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Entry {
    /// Path of its config.
    pub(super) config: String,
    /// Paths of its layers, lowest first.
    #[serde(default)]
    pub(super) layers: Vec<String>,
}

/// Verifies an archive; returns its size.
pub(super) async fn verify(
    archive: &Path,
    expected: &Expected,
    tell: Tell<'_>,
) -> Result<u64, Error> {
    let path = archive.to_owned();
    let failed = |problem: String| Error::Archive {
        path: archive.to_owned(),
        problem,
    };
    let opened = File::open(archive).and_then(|file| file.metadata());
    let opened = opened.map_err(|error| Error::UnreadableArchive {
        path: archive.to_owned(),
        problem: error.to_string(),
    })?;
    let bytes = opened.len();
    // A pinned image has no list of blobs; the engine says afterwards whether it was the one.
    let Some(digests) = expected.digests().cloned() else {
        return Ok(bytes);
    };
    tell("checking the guest image's archive", 0, Some(bytes));
    let check = tokio::task::spawn_blocking(move || read(&path, &digests));
    match check.await {
        Ok(Ok(())) => Ok(bytes),
        Ok(Err(problem)) => Err(failed(problem)),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn read(path: &PathBuf, digests: &guest_image::Digests) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read ({error})");
    let file = File::open(path).map_err(unreadable)?;
    let mut blobs = BTreeSet::new();
    let mut index = None;
    let mut archive = tar::Archive::new(BufReader::with_capacity(PIECE_BYTES, file));
    for (number, entry) in archive.entries().map_err(unreadable)?.enumerate() {
        if number > MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} files"));
        }
        let mut entry = entry.map_err(unreadable)?;
        let name = entry
            .path()
            .map_err(unreadable)?
            .to_string_lossy()
            .into_owned();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        if let Some(hex) = name.strip_prefix("blobs/sha256/") {
            let found = hash(&mut entry).map_err(unreadable)?;
            if found != hex {
                return Err(format!("blob sha256:{hex} is really sha256:{found}"));
            }
            blobs.insert(format!("sha256:{found}"));
        } else if name == "manifest.json" {
            index = Some(read_index(&mut entry)?);
        }
    }
    let parts = [("config", &digests.config), ("manifest", &digests.manifest)];
    let layers = digests.diff_ids.iter().map(|layer| ("layer", layer));
    for (what, digest) in parts.into_iter().chain(layers) {
        if !blobs.contains(digest) {
            return Err(format!("{what} {digest} is not in it"));
        }
    }
    let index = index.ok_or("it has no manifest.json")?;
    let config = digests.config.strip_prefix("sha256:").unwrap_or_default();
    match index.as_slice() {
        [only] if only.config == format!("blobs/sha256/{config}") => Ok(()),
        [only] => Err(format!("its image has config {}", only.config)),
        _ => Err(format!("it has {} images", index.len())),
    }
}

pub(super) fn read_index(entry: &mut impl Read) -> Result<Vec<Entry>, String> {
    let mut bytes = Vec::new();
    entry
        .take(MAX_INDEX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("its manifest.json cannot be read ({error})"))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| format!("its manifest.json cannot be read ({error})"))
}

/// The sum of what is left of a reader, in hexadecimal digits.
pub(super) fn hash(reader: &mut impl Read) -> std::io::Result<String> {
    let mut sum = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(crate::engine::hex(&sum.finalize())),
            count => sum.update(&piece[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> String {
        hash(&mut &*bytes).expect("readable")
    }

    /// An archive with these blobs, under names that `rename` may falsify.
    fn archive(
        folder: &Path,
        blobs: &[&[u8]],
        config: &[u8],
        rename: impl Fn(String) -> String,
    ) -> PathBuf {
        let path = folder.join("archive.tar");
        let mut tar = tar::Builder::new(File::create(&path).expect("created"));
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, bytes).expect("written");
        };
        for blob in blobs {
            add(&format!("blobs/sha256/{}", rename(sum(blob))), blob);
        }
        let index = format!(
            r#"[{{"Config":"blobs/sha256/{}","Layers":[]}}]"#,
            sum(config)
        );
        add("manifest.json", index.as_bytes());
        tar.finish().expect("written");
        path
    }

    fn digests() -> guest_image::Digests {
        let digest = |bytes: &[u8]| format!("sha256:{}", sum(bytes));
        guest_image::Digests {
            architecture: "amd64".to_owned(),
            manifest: digest(b"manifest"),
            config: digest(b"config"),
            diff_ids: vec![digest(b"layer")],
            archive_bytes: None,
        }
    }

    #[test]
    fn only_the_locked_image_is_accepted() {
        let folder = tempfile::tempdir().expect("a folder");
        let check =
            |blobs: &[&[u8]], config: &[u8], rename: &dyn Fn(String) -> String, problem: &str| {
                let result = read(&archive(folder.path(), blobs, config, rename), &digests());
                match result {
                    Ok(()) => assert_eq!(problem, ""),
                    Err(text) => assert!(!problem.is_empty() && text.contains(problem), "{text}"),
                }
            };
        let all: [&[u8]; 3] = [b"manifest", b"config", b"layer"];
        check(&all, b"config", &|name| name, "");
        check(&all[..2], b"config", &|name| name, "layer sha256:");
        check(&all, b"other", &|name| name, "its image has config");
        check(&all, b"config", &|name| name.replace('a', "b"), "is really");
        let path = folder.path().join("archive.tar");
        std::fs::write(&path, b"no tar at all, but longer than nothing".repeat(40))
            .expect("written");
        assert!(read(&path, &digests()).is_err());
        std::fs::write(&path, b"").expect("written");
        assert!(read(&path, &digests()).is_err(), "empty");
    }
}
