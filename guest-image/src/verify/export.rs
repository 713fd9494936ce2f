//! Reads the archives that engines export, whose layout differs between engines and versions.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::Error;
use super::json::{DockerImage, parse};
use crate::sha256::HashingReader;

const MAX_ENTRIES: usize = 100_000;
const MAX_JSON_BYTES: u64 = 1 << 20;
const DOCKER_MANIFEST: &str = "manifest.json";

/// The digests of the layers in an exported archive of one image, lowest first. The layers are
/// hashed; what the archive says about their digests is ignored.
pub fn exported_layers(archive: impl Read) -> Result<Vec<String>, Error> {
    let mut digests = BTreeMap::new();
    let mut images = None;
    let mut tar = tar::Archive::new(archive);
    for (count, entry) in tar.entries().map_err(not_tar)?.enumerate() {
        if count == MAX_ENTRIES {
            return Err(Error::Foreign(format!("more than {MAX_ENTRIES} files")));
        }
        let entry = entry.map_err(not_tar)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if name == DOCKER_MANIFEST {
            let mut text = Vec::new();
            let read = entry.take(MAX_JSON_BYTES).read_to_end(&mut text);
            read.map_err(not_tar)?;
            images = Some(parse::<Vec<DockerImage>>(&name, &text)?);
        } else {
            let digest = HashingReader::new(entry).finish().map_err(not_tar)?;
            digests.insert(name, format!("sha256:{digest}"));
        }
    }
    let images = images.ok_or_else(|| Error::Missing(DOCKER_MANIFEST.to_owned()))?;
    let [image] = images.as_slice() else {
        return Err(Error::Foreign(format!("{} images", images.len())));
    };
    let layers = image.layers.iter().map(|path| {
        let digest = digests.get(path).cloned();
        digest.ok_or_else(|| Error::Missing(path.clone()))
    });
    layers.collect()
}

/// The tar reader quotes what is not a tar archive, which may be binary.
fn not_tar(_error: io::Error) -> Error {
    Error::NotTar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sha256::digest;

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, data) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, *data).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn layers_of_an_export_are_hashed_in_order() {
        let list = br#"[{"Config":"c.json","RepoTags":null,"Layers":["b/layer.tar","a.tar"]}]"#;
        let files: [(&str, &[u8]); 4] = [
            ("a.tar", b"upper"),
            ("b/layer.tar", b"lower"),
            ("c.json", b"{}"),
            ("manifest.json", list),
        ];
        let layers = exported_layers(&*tar_of(&files)).unwrap();
        assert_eq!(layers, [digest(b"lower"), digest(b"upper")]);
        let missing = exported_layers(&*tar_of(&files[1..]));
        assert!(matches!(missing, Err(Error::Missing(name)) if name == "a.tar"));
        let unlisted = exported_layers(&*tar_of(&files[..3]));
        assert!(matches!(unlisted, Err(Error::Missing(name)) if name == "manifest.json"));
    }

    #[test]
    fn export_that_is_not_a_tar_archive_is_rejected() {
        let noise: Vec<u8> = (0..=255).rev().cycle().take(4096).collect();
        assert!(matches!(exported_layers(&*noise), Err(Error::NotTar)));
        assert!(matches!(exported_layers(&b""[..]), Err(Error::Missing(_))));
        let two = tar_of(&[("manifest.json", b"[]")]);
        assert!(matches!(exported_layers(&*two), Err(Error::Foreign(_))));
    }
}
