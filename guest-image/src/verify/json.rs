//! The parts of an archive's JSON files that say which image it holds.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Error;

/// The file `oci-layout`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageLayout {
    pub(super) image_layout_version: String,
}

/// The file `index.json`.
#[derive(Deserialize)]
pub(super) struct ImageIndex {
    pub(super) manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
pub(super) struct ImageManifest {
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
pub(super) struct Descriptor {
    pub(super) digest: String,
}

#[derive(Deserialize)]
pub(super) struct ImageConfig {
    pub(super) architecture: String,
    pub(super) rootfs: RootFs,
}

#[derive(Deserialize)]
pub(super) struct RootFs {
    pub(super) diff_ids: Vec<String>,
}

/// An entry of Docker's file `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DockerImage {
    /// The path of the config.
    pub(super) config: String,
    /// The paths of the layers, lowest first.
    #[serde(default)]
    pub(super) layers: Vec<String>,
}

pub(super) fn parse<T: DeserializeOwned>(name: &str, text: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(text).map_err(|source| Error::Json {
        name: name.to_owned(),
        source,
    })
}

/// Rejects a file whose meaning depends on the reader: Go, which engines are written in, ignores
/// case in names and takes the last of several, so that `config` after `Config` would count.
pub(super) fn check_names(name: &str, text: &[u8]) -> Result<(), Error> {
    if is_ambiguous(&parse(name, text)?) {
        return Err(Error::AmbiguousJson {
            name: name.to_owned(),
        });
    }
    Ok(())
}

fn is_ambiguous(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let names: BTreeSet<_> = fields.keys().map(|key| key.to_ascii_lowercase()).collect();
            names.len() != fields.len()
                || !fields.keys().all(|key| key.is_ascii())
                || fields.values().any(is_ambiguous)
        }
        Value::Array(values) => values.iter().any(is_ambiguous),
        _ => false,
    }
}
