//! Reads an image archive strictly, and checks that its parts belong together.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::json::{DockerImage, ImageConfig, ImageIndex, ImageLayout, ImageManifest, parse};
use super::{Error as VerifyError, expect_equal};
use crate::architecture::Architecture;
use crate::digests::Digests;
use crate::layout::blob_path;
use crate::rootfs::PYTHON;
use crate::sha256::{HashingReader, is_hex_digest};

const MAX_ENTRIES: usize = 1000;
const MAX_LAYER_ENTRIES: usize = 500_000;
const MAX_JSON_BYTES: u64 = 1 << 20;

const BLOBS: &str = "blobs/sha256/";
const INDEX: &str = "index.json";
const DOCKER_MANIFEST: &str = "manifest.json";
const LAYOUT: &str = "oci-layout";

/// What is done with layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layers {
    Hash,
    /// Their entries are looked at too.
    Inspect,
}

/// What an archive contains, still to be checked.
#[derive(Default)]
pub(super) struct Contents {
    /// The SHA-256 of every file, by name.
    digests: BTreeMap<String, String>,
    /// The content of every small file that is not a layer, by name.
    json: BTreeMap<String, Vec<u8>>,
    /// The size of all files.
    pub(super) bytes: u64,
    /// The architecture of the interpreter, if layers were inspected and have one.
    pub(super) python: Option<Architecture>,
}

/// Why an archive cannot be read to its end.
pub(super) enum Error {
    /// The tar reader failed: the file cannot be read, or is not a tar archive.
    Io(io::Error),
    Verify(VerifyError),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<VerifyError> for Error {
    fn from(error: VerifyError) -> Self {
        Self::Verify(error)
    }
}

impl Contents {
    /// Reads an archive, and hashes each of its files. `report` gets the number of bytes done so
    /// far.
    ///
    /// Tar's extensions are not allowed, as programs differ in which ones they know, and so in the
    /// names that they see.
    pub(super) fn read(
        archive: impl Read,
        expected: &Digests,
        layers: Layers,
        report: &dyn Fn(u64),
    ) -> Result<Self, Error> {
        let layer_paths: Vec<_> = expected.diff_ids.iter().map(|id| blob_path(id)).collect();
        let mut contents = Self::default();
        let mut tar = tar::Archive::new(archive);
        for (count, entry) in tar.entries()?.raw(true).enumerate() {
            let mut entry = entry?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let kind = entry.header().entry_type();
            if kind.is_dir() && matches!(name.trim_end_matches('/'), "blobs" | "blobs/sha256") {
                continue;
            }
            let is_new = !contents.digests.contains_key(&name);
            if count == MAX_ENTRIES || !kind.is_file() || !is_allowed(&name) || !is_new {
                return Err(VerifyError::Foreign(format!("{name:?}")).into());
            }
            let size = entry.size();
            let mut reader = HashingReader::new(&mut entry);
            if layer_paths.contains(&name) {
                if layers == Layers::Inspect {
                    contents.inspect_layer(&mut reader)?;
                }
            } else if size <= MAX_JSON_BYTES {
                let mut data = Vec::new();
                reader.read_to_end(&mut data)?;
                contents.json.insert(name.clone(), data);
            }
            let digest = reader.finish()?;
            if name.strip_prefix(BLOBS).is_some_and(|hex| hex != digest) {
                let found = format!("sha256:{digest}");
                return Err(VerifyError::Blob { name, found }.into());
            }
            contents.digests.insert(name, digest);
            contents.bytes += size;
            report(contents.bytes);
        }
        if !is_padding(tar.into_inner())? {
            return Err(VerifyError::Foreign("data after its end".to_owned()).into());
        }
        Ok(contents)
    }

    /// Finds the interpreter in a layer, and files that no guest may have.
    fn inspect_layer(&mut self, layer: impl Read) -> Result<(), Error> {
        let mut tar = tar::Archive::new(layer);
        for (count, entry) in tar.entries()?.enumerate() {
            let mut entry = entry?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let is_special = entry.header().mode()? & 0o6000 != 0;
            if count == MAX_LAYER_ENTRIES || is_special {
                return Err(VerifyError::Foreign(format!("{name:?} in a layer")).into());
            }
            if name == PYTHON {
                let mut header = Vec::new();
                entry.by_ref().take(20).read_to_end(&mut header)?;
                self.python = Architecture::of_elf(&header);
            }
        }
        Ok(())
    }

    /// Checks that both tables of contents lead to the expected image and that no blob is left
    /// over.
    pub(super) fn check(&self, expected: &Digests) -> Result<(), VerifyError> {
        let layers = expected.diff_ids.join(", ");
        let layout: ImageLayout = self.unambiguous(LAYOUT)?;
        expect_equal(
            "version of oci-layout",
            "1.0.0",
            &layout.image_layout_version,
        )?;

        let index: ImageIndex = self.unambiguous(INDEX)?;
        let found: Vec<_> = index
            .manifests
            .iter()
            .map(|it| it.digest.as_str())
            .collect();
        expect_equal("manifest", &expected.manifest, &found.join(", "))?;
        let manifest: ImageManifest = self.json(&blob_path(&expected.manifest))?;
        expect_equal("config", &expected.config, &manifest.config.digest)?;
        let found: Vec<_> = manifest
            .layers
            .iter()
            .map(|it| it.digest.as_str())
            .collect();
        expect_equal("layers", &layers, &found.join(", "))?;
        let config: ImageConfig = self.json(&blob_path(&expected.config))?;
        expect_equal(
            "layers in its config",
            &layers,
            &config.rootfs.diff_ids.join(", "),
        )?;
        expect_equal("architecture", &expected.architecture, &config.architecture)?;

        let images: Vec<DockerImage> = self.unambiguous(DOCKER_MANIFEST)?;
        let found: Vec<_> = images.iter().map(|it| it.config.as_str()).collect();
        let config = blob_path(&expected.config);
        expect_equal("config in manifest.json", &config, &found.join(", "))?;
        let paths: Vec<_> = expected.diff_ids.iter().map(|id| blob_path(id)).collect();
        let found: Vec<_> = images.iter().flat_map(|it| &it.layers).cloned().collect();
        expect_equal(
            "layers in manifest.json",
            &paths.join(", "),
            &found.join(", "),
        )?;

        if let Some(path) = paths.iter().find(|path| !self.digests.contains_key(*path)) {
            return Err(VerifyError::Missing(path.clone()));
        }
        let manifest = blob_path(&expected.manifest);
        let is_known = |name: &String| *name == manifest || *name == config || paths.contains(name);
        match self.blob_names().find(|name| !is_known(name)) {
            Some(name) => Err(VerifyError::Foreign(format!("{name:?}"))),
            None => Ok(()),
        }
    }

    pub(super) fn blobs(&self) -> usize {
        self.blob_names().count()
    }

    fn blob_names(&self) -> impl Iterator<Item = &String> {
        self.digests.keys().filter(|name| name.starts_with(BLOBS))
    }

    fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, VerifyError> {
        parse(name, self.text(name)?)
    }

    /// A file whose digest nobody knows: it must read the same to every program.
    fn unambiguous<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, VerifyError> {
        super::json::check_names(name, self.text(name)?)?;
        self.json(name)
    }

    fn text(&self, name: &str) -> Result<&[u8], VerifyError> {
        let text = self.json.get(name).map(Vec::as_slice);
        text.ok_or_else(|| VerifyError::Missing(name.to_owned()))
    }
}

/// Whether an image archive may have a file with this name.
fn is_allowed(name: &str) -> bool {
    matches!(name, INDEX | DOCKER_MANIFEST | LAYOUT)
        || name.strip_prefix(BLOBS).is_some_and(is_hex_digest)
}

/// Whether a reader has only zeros left.
fn is_padding(mut reader: impl Read) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(true),
            count if buffer[..count].iter().all(|byte| *byte == 0) => {}
            _ => return Ok(false),
        }
    }
}
