//! What is in an image's archive: the sum of every file, and Docker's list of images.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// More files than any image archive has.
const MAX_ENTRIES: usize = 100_000;
/// The largest list of images that is read.
const MAX_LIST_BYTES: u64 = 1 << 20;
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

/// What was found in an archive.
#[derive(Debug)]
pub(super) struct Contents {
    /// The sum of every file by its path, in hexadecimal digits; without `manifest.json`.
    pub(super) sums: BTreeMap<String, String>,
    /// The images that `manifest.json` lists.
    pub(super) images: Vec<Entry>,
}

impl Contents {
    /// Reads an archive to its end. `name` stands for it in errors: `it`, `its export`.
    pub(super) fn read(reader: impl Read, name: &str) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| unreadable(name, &error);
        let mut sums = BTreeMap::new();
        let mut images = None;
        let mut archive = tar::Archive::new(reader);
        for (number, entry) in archive.entries().map_err(unreadable)?.enumerate() {
            if number > MAX_ENTRIES {
                return Err(format!("{name} has more than {MAX_ENTRIES} files"));
            }
            let mut entry = entry.map_err(unreadable)?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let path = entry.path().map_err(unreadable)?;
            let path = path.to_string_lossy().into_owned();
            if path == "manifest.json" {
                images = Some(list(&mut entry)?);
            } else {
                sums.insert(path, hash(&mut entry).map_err(unreadable)?);
            }
        }
        let images = images.ok_or_else(|| format!("{name} has no manifest.json"))?;
        Ok(Self { sums, images })
    }
}

/// What is no archive at all is quoted by the reader, bytes and all.
fn unreadable(name: &str, error: &std::io::Error) -> String {
    let text = error.to_string();
    let is_text = |c: char| !c.is_control() && c != char::REPLACEMENT_CHARACTER;
    if text.chars().all(is_text) {
        format!("{name} cannot be read ({text})")
    } else {
        format!("{name} is no tar archive, or a damaged one")
    }
}

fn list(entry: &mut impl Read) -> Result<Vec<Entry>, String> {
    let mut bytes = Vec::new();
    entry
        .take(MAX_LIST_BYTES)
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
            0 => return Ok(bridge_engine::hex(&sum.finalize())),
            count => sum.update(&piece[..count]),
        }
    }
}
