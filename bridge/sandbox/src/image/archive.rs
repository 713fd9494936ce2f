//! An image archive on this machine, verified before it is given to the engine: every blob is what its name says, and the
//! blobs of the lock are all there. The engine's own verification comes after; this one says what is wrong with a file.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::contents::Contents;
use super::{Error, Expected, Tell};

const PIECE_BYTES: usize = 256 << 10;

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

fn read(path: &Path, digests: &guest_image::Digests) -> Result<(), String> {
    let file = File::open(path).map_err(|error| format!("it cannot be read ({error})"))?;
    let found = Contents::read(BufReader::with_capacity(PIECE_BYTES, file), "it")?;
    for (path, sum) in &found.sums {
        if let Some(name) = path.strip_prefix("blobs/sha256/")
            && name != sum
        {
            return Err(format!("blob sha256:{name} is really sha256:{sum}"));
        }
    }
    let parts = [("config", &digests.config), ("manifest", &digests.manifest)];
    let layers = digests.diff_ids.iter().map(|layer| ("layer", layer));
    for (what, digest) in parts.into_iter().chain(layers) {
        if !found.sums.contains_key(&blob(digest)) {
            return Err(format!("{what} {digest} is not in it"));
        }
    }
    match found.images.as_slice() {
        [only] if only.config == blob(&digests.config) => Ok(()),
        [only] => Err(format!("its image has config {}", only.config)),
        images => Err(format!("it has {} images", images.len())),
    }
}

/// Where the blob with this digest lies.
fn blob(digest: &str) -> String {
    format!("blobs/{}", digest.replacen(':', "/", 1))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::contents::hash;
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
        let noise: Vec<u8> = (0..=255).rev().cycle().take(4096).collect();
        std::fs::write(&path, noise).expect("written");
        assert_eq!(
            read(&path, &digests()).expect_err("noise"),
            "it is no tar archive, or a damaged one"
        );
        std::fs::write(&path, b"").expect("written");
        assert!(read(&path, &digests()).is_err(), "empty");
    }
}
