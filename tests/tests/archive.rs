//! Takes image archives apart, changes them, and puts them together again with matching digests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The files of an image archive.
pub(crate) struct Archive(BTreeMap<String, Vec<u8>>);

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

impl Archive {
    pub(crate) fn read(path: &Path) -> Self {
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(File::open(path).unwrap())
            .entries()
            .unwrap()
        {
            let mut entry = entry.unwrap();
            if entry.header().entry_type().is_file() {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                files.insert(entry.path().unwrap().display().to_string(), content);
            }
        }
        Self(files)
    }

    pub(crate) fn write(&self, path: &Path) {
        let mut builder = tar::Builder::new(File::create(path).unwrap());
        for (name, content) in &self.0 {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder
                .append_data(&mut header, name, content.as_slice())
                .unwrap();
        }
        builder.finish().unwrap();
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.0[name]).unwrap()
    }

    /// Changes the image's config and everything that names it, which makes a well-formed image
    /// with another ID. Returns the digests of the new manifest and config.
    pub(crate) fn change_config(&mut self, change: impl FnOnce(&mut Value)) -> (String, String) {
        let mut list = self.json("manifest.json");
        let old = list[0]["Config"].as_str().unwrap().to_owned();
        let mut config = self.json(&old);
        change(&mut config);
        let bytes = config.to_string().into_bytes();
        let digest = sha256(&bytes);
        let size = bytes.len();
        self.0.remove(&old);
        self.0.insert(format!("blobs/sha256/{digest}"), bytes);
        list[0]["Config"] = format!("blobs/sha256/{digest}").into();
        self.0
            .insert("manifest.json".to_owned(), list.to_string().into_bytes());

        let mut index = self.json("index.json");
        let old = index["manifests"][0]["digest"]
            .as_str()
            .unwrap()
            .replace("sha256:", "blobs/sha256/");
        let mut manifest = self.json(&old);
        self.0.remove(&old);
        manifest["config"]["digest"] = format!("sha256:{digest}").into();
        manifest["config"]["size"] = size.into();
        let bytes = manifest.to_string().into_bytes();
        let manifest_digest = sha256(&bytes);
        index["manifests"][0]["digest"] = format!("sha256:{manifest_digest}").into();
        index["manifests"][0]["size"] = bytes.len().into();
        self.0
            .insert(format!("blobs/sha256/{manifest_digest}"), bytes);
        self.0
            .insert("index.json".to_owned(), index.to_string().into_bytes());
        (
            format!("sha256:{manifest_digest}"),
            format!("sha256:{digest}"),
        )
    }

    /// Flips one bit of text in the last layer and leaves all digests as they are.
    pub(crate) fn damage_layer(&mut self) {
        let list = self.json("manifest.json");
        let layers = list[0]["Layers"].as_array().unwrap();
        let layer = layers.last().unwrap().as_str().unwrap();
        let bytes = self.0.get_mut(layer).unwrap();
        let needle = b"execution_done";
        let place = bytes
            .windows(needle.len())
            .position(|window| window == needle)
            .expect("the runtime's source is in the layer");
        bytes[place] ^= 1;
    }
}
