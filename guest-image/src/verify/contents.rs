//! What an archive holds, once it is read: whether its parts belong together, and what its layers hold.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::Error;
use crate::architecture::Architecture;
use crate::digests::Digests;
use crate::layout::{Config, DockerImage, Index, Manifest, blob_path};
use crate::rootfs::PYTHON;

/// Entries that a layer has at most.
const MAX_LAYER_ENTRIES: usize = 500_000;

/// What an archive holds.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) sums: BTreeMap<String, String>,
    pub(super) json: BTreeMap<String, Vec<u8>>,
    pub(super) machine: Option<Architecture>,
    pub(super) bytes: u64,
}

impl Contents {
    /// Finds the interpreter, and what a guest must not have.
    pub(super) fn look_into_layer(&mut self, layer: impl Read) -> io::Result<Result<(), Error>> {
        let mut tar = tar::Archive::new(layer);
        for (count, entry) in tar.entries()?.enumerate() {
            let mut entry = entry?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let special = entry.header().mode()? & 0o6000 != 0;
            if count == MAX_LAYER_ENTRIES || special {
                return Ok(Err(Error::Foreign(format!(
                    "a layer has {name:?}, which no guest may have"
                ))));
            }
            if name == PYTHON {
                let mut start = Vec::new();
                entry.by_ref().take(20).read_to_end(&mut start)?;
                self.machine = Architecture::of_elf(&start);
            }
        }
        Ok(Ok(()))
    }

    /// From the index to the layers: every reference has to lead to what is expected.
    pub(super) fn follow(&self, expected: &Digests) -> Result<(), Error> {
        let index: Index = self.parse("index.json")?;
        let found: Vec<_> = index
            .manifests
            .iter()
            .map(|manifest| manifest.digest.as_str())
            .collect();
        differs("the manifest", &expected.manifest, &found.join(", "))?;
        let manifest: Manifest = self.parse(&blob_path(&expected.manifest))?;
        differs("the config", &expected.config, &manifest.config.digest)?;
        let expected_layers = expected.diff_ids.join(", ");
        let found: Vec<_> = manifest
            .layers
            .iter()
            .map(|layer| layer.digest.as_str())
            .collect();
        differs("the layers", &expected_layers, &found.join(", "))?;
        let config: Config = self.parse(&blob_path(&expected.config))?;
        differs(
            "the layers of the config",
            &expected_layers,
            &config.rootfs.diff_ids.join(", "),
        )?;
        differs("the machine", &expected.architecture, &config.architecture)?;
        for layer in &expected.diff_ids {
            let path = blob_path(layer);
            if !self.sums.contains_key(&path) {
                return Err(Error::Missing(path));
            }
        }
        let docker: Vec<DockerImage> = self.parse("manifest.json")?;
        let [docker] = docker.as_slice() else {
            return Err(Error::Foreign(
                "manifest.json does not name one image".to_owned(),
            ));
        };
        differs(
            "the config in manifest.json",
            &blob_path(&expected.config),
            &docker.config,
        )?;
        let paths: Vec<_> = expected
            .diff_ids
            .iter()
            .map(|layer| blob_path(layer))
            .collect();
        differs(
            "the layers in manifest.json",
            &paths.join(", "),
            &docker.layers.join(", "),
        )
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let data = self
            .json
            .get(name)
            .ok_or_else(|| Error::Missing(name.to_owned()))?;
        serde_json::from_slice(data).map_err(|source| Error::Json {
            name: name.to_owned(),
            source,
        })
    }
}

pub(super) fn differs(what: &'static str, expected: &str, found: &str) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Differs {
        what,
        expected: expected.to_owned(),
        found: found.chars().take(500).collect(),
    })
}
