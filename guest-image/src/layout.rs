//! Packs layers as an image archive that every engine loads: an OCI layout and Docker's
//! `manifest.json`, over the same blobs.
//!
//! All JSON is written from structs whose fields are sorted by name, so its bytes and digests
//! depend on nothing but the layers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::architecture::Architecture;
use crate::digests::Digests;
use crate::layer;
use crate::sha256;

const TIME: &str = "1970-01-01T00:00:01Z";
/// Every tag of a guest image starts with this. Tags are for people: the bridge never uses one.
const REPOSITORY: &str = "localhost/mcp-code-bridge-guest";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
/// The content of the file `oci-layout`.
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// OCI's image configuration.
#[derive(Debug, Serialize)]
struct ImageConfig {
    architecture: String,
    #[serde(rename = "config")]
    execution: Execution,
    created: String,
    history: Vec<History>,
    os: String,
    rootfs: RootFs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Execution {
    entrypoint: Vec<String>,
    env: Vec<String>,
    user: String,
    working_dir: String,
}

#[derive(Debug, Serialize)]
struct History {
    created: String,
    created_by: String,
}

#[derive(Debug, Serialize)]
struct RootFs {
    diff_ids: Vec<String>,
    r#type: String,
}

/// OCI's image manifest.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ImageManifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
    media_type: String,
    schema_version: u32,
}

/// OCI's image index, of one image.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ImageIndex {
    manifests: Vec<Descriptor>,
    media_type: String,
    schema_version: u32,
}

/// OCI's reference to a blob.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    digest: String,
    media_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<Platform>,
    size: u64,
}

#[derive(Debug, Serialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// An entry of Docker's `manifest.json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    layers: Vec<String>,
    repo_tags: Vec<String>,
}

/// An image in memory.
pub(crate) struct Image {
    files: BTreeMap<String, Vec<u8>>,
    digests: Digests,
}

impl Image {
    /// Packs layers, lowest first, each with the text that the image's history gets.
    pub(crate) fn new(
        flavour: &str,
        architecture: Architecture,
        layers: Vec<(Vec<u8>, &str)>,
    ) -> Result<Self, serde_json::Error> {
        let mut files = BTreeMap::new();
        let mut store = |data: Vec<u8>, media_type: &str| {
            let descriptor = Descriptor {
                annotations: BTreeMap::new(),
                digest: sha256::digest(&data),
                media_type: media_type.to_owned(),
                platform: None,
                size: data.len() as u64,
            };
            files.insert(blob_path(&descriptor.digest), data);
            descriptor
        };
        let history = layers.iter().map(|(_, created_by)| History {
            created: TIME.to_owned(),
            created_by: (*created_by).to_owned(),
        });
        let history = history.collect();
        let layers: Vec<_> = layers
            .into_iter()
            .map(|(data, _)| store(data, LAYER_TYPE))
            .collect();
        let diff_ids: Vec<_> = layers.iter().map(|layer| layer.digest.clone()).collect();
        let config = ImageConfig {
            architecture: architecture.name().to_owned(),
            execution: Execution::of_guest(),
            created: TIME.to_owned(),
            history,
            os: "linux".to_owned(),
            rootfs: RootFs {
                diff_ids: diff_ids.clone(),
                r#type: "layers".to_owned(),
            },
        };
        let config = store(serde_json::to_vec(&config)?, CONFIG_TYPE);
        let tag = format!("{REPOSITORY}:{flavour}");
        let docker = [DockerImage {
            config: blob_path(&config.digest),
            layers: layers
                .iter()
                .map(|layer| blob_path(&layer.digest))
                .collect(),
            repo_tags: vec![tag.clone()],
        }];
        let config_digest = config.digest.clone();
        let manifest = ImageManifest {
            config,
            layers,
            media_type: MANIFEST_TYPE.to_owned(),
            schema_version: 2,
        };
        let mut manifest = store(serde_json::to_vec(&manifest)?, MANIFEST_TYPE);
        let manifest_digest = manifest.digest.clone();
        manifest.platform = Some(Platform {
            architecture: architecture.name().to_owned(),
            os: "linux".to_owned(),
        });
        manifest.annotations = BTreeMap::from([
            ("io.containerd.image.name".to_owned(), tag),
            (
                "org.opencontainers.image.ref.name".to_owned(),
                flavour.to_owned(),
            ),
        ]);
        let index = ImageIndex {
            manifests: vec![manifest],
            media_type: "application/vnd.oci.image.index.v1+json".to_owned(),
            schema_version: 2,
        };
        files.insert("index.json".to_owned(), serde_json::to_vec(&index)?);
        files.insert("manifest.json".to_owned(), serde_json::to_vec(&docker)?);
        files.insert("oci-layout".to_owned(), LAYOUT.to_vec());
        let mut image = Self {
            files,
            digests: Digests {
                architecture: architecture.name().to_owned(),
                manifest: manifest_digest,
                config: config_digest,
                diff_ids,
                archive_bytes: None,
            },
        };
        image.digests.archive_bytes = Some(image.archive_bytes());
        Ok(image)
    }

    pub(crate) fn digests(&self) -> &Digests {
        &self.digests
    }

    /// Writes the archive.
    pub(crate) fn write(&self, output: impl Write) -> io::Result<()> {
        let mut builder = tar::Builder::new(output);
        for folder in ["blobs/", "blobs/sha256/"] {
            let mut header = layer::header(tar::EntryType::Directory, 0o755, 0);
            builder.append_data(&mut header, folder, io::empty())?;
        }
        for (path, data) in &self.files {
            let mut header = layer::header(tar::EntryType::Regular, 0o644, data.len() as u64);
            builder.append_data(&mut header, path, data.as_slice())?;
        }
        builder.into_inner()?.flush()
    }

    /// The size of the archive: headers, padded files and the two blocks at the end.
    fn archive_bytes(&self) -> u64 {
        let files: u64 = self
            .files
            .values()
            .map(|data| 512 + (data.len() as u64).next_multiple_of(512))
            .sum();
        files + 2 * 512 + 1024
    }
}

impl Execution {
    fn of_guest() -> Self {
        let strings = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        Self {
            entrypoint: strings(&["/usr/bin/python3.14", "-I", "-S", "/opt/guest/entry.py"]),
            env: strings(&[
                "PATH=/usr/bin",
                "LANG=C.UTF-8",
                "HOME=/workspace",
                "PYTHONDONTWRITEBYTECODE=1",
            ]),
            user: "65534:65534".to_owned(),
            working_dir: "/workspace".to_owned(),
        }
    }
}

/// The path of a blob in an archive.
pub(crate) fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_has_the_announced_size_and_is_reproducible() {
        let image = || {
            Image::new(
                "base",
                Architecture::Arm64,
                vec![(vec![1; 1024], "a"), (vec![2; 700], "b")],
            )
            .expect("it serializes")
        };
        let write = |image: &Image| {
            let mut bytes = Vec::new();
            image.write(&mut bytes).expect("in memory");
            bytes
        };
        let first = image();
        let bytes = write(&first);
        assert_eq!(Some(bytes.len() as u64), first.digests().archive_bytes);
        assert_eq!(bytes, write(&image()));
    }

    #[test]
    fn json_is_what_engines_expect() {
        let image = Image::new(
            "base",
            Architecture::Amd64,
            vec![(b"layer".to_vec(), "the layer")],
        )
        .expect("it serializes");
        let config = &image.files[&blob_path(&image.digests.config)];
        insta::assert_snapshot!(String::from_utf8_lossy(config));
        let manifest = &image.files[&blob_path(&image.digests.manifest)];
        insta::assert_snapshot!(String::from_utf8_lossy(manifest));
        insta::assert_snapshot!(String::from_utf8_lossy(&image.files["index.json"]));
        insta::assert_snapshot!(String::from_utf8_lossy(&image.files["manifest.json"]));
    }
}
