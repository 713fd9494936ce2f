//! Deep verification: the image is taken out of the engine, and each of its layers hashed.

use std::collections::BTreeMap;
use std::io::Read;

use futures_util::TryStreamExt;
use tokio_util::io::{StreamReader, SyncIoBridge};

use super::archive::{Entry, hash, read_index};
use super::{Error, Expected, Tell};
use crate::engine::{self, Engine, ImageFacts};

/// More files than an engine puts into an exported image.
const MAX_ENTRIES: usize = 100_000;

/// Exports the image and compares the sum of every layer with the lock, or where that has none with the engine's words.
pub(super) async fn verify(
    engine: &dyn Engine,
    facts: &ImageFacts,
    expected: &Expected,
    tell: Tell<'_>,
) -> Result<(), Error> {
    tell("hashing every layer of the guest image", 0, None);
    let pieces = engine.export_image(&facts.id).await?;
    let failure = std::sync::Arc::new(std::sync::Mutex::new(None));
    let noted = failure.clone();
    let pieces = pieces.map_err(move |error| {
        let told = std::io::Error::other(error.to_string());
        if let Ok(mut noted) = noted.lock() {
            *noted = Some(error);
        }
        told
    });
    let reader = SyncIoBridge::new(StreamReader::new(pieces));
    let read = tokio::task::spawn_blocking(move || layers(reader)).await;
    let damaged = |problem: String| Error::Damaged {
        image: facts.id.clone(),
        problem,
    };
    match failure.lock().ok().and_then(|mut failure| failure.take()) {
        // Engines know the sum of every file, and say so when they pack one that has changed.
        Some(engine::Error::Refused { message, .. }) if message.contains("integrity") => {
            return Err(damaged(message));
        }
        Some(error) => return Err(error.into()),
        None => {}
    }
    let found = read
        .map_err(|error| damaged(error.to_string()))?
        .map_err(damaged)?;
    let locked = expected
        .digests()
        .map_or(&facts.diff_ids, |digests| &digests.diff_ids);
    if found.len() != locked.len() {
        return Err(damaged(format!(
            "it has {} layers, not {}",
            found.len(),
            locked.len()
        )));
    }
    match locked
        .iter()
        .zip(&found)
        .find(|(locked, found)| locked != found)
    {
        Some((locked, found)) => Err(damaged(format!("layer {locked} is really {found}"))),
        None => Ok(()),
    }
}

/// The sums of the layers in an exported image, lowest first.
fn layers(reader: impl Read) -> Result<Vec<String>, String> {
    let unreadable = |error: std::io::Error| format!("its export cannot be read ({error})");
    let mut sums = BTreeMap::new();
    let mut index: Option<Vec<Entry>> = None;
    let mut archive = tar::Archive::new(reader);
    for (number, entry) in archive.entries().map_err(unreadable)?.enumerate() {
        if number > MAX_ENTRIES {
            return Err(format!("its export has more than {MAX_ENTRIES} files"));
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
        if name == "manifest.json" {
            index = Some(read_index(&mut entry)?);
        } else {
            sums.insert(name, hash(&mut entry).map_err(unreadable)?);
        }
    }
    let mut index = index.ok_or("its export has no manifest.json")?;
    let (Some(only), true) = (index.pop(), index.is_empty()) else {
        return Err("its export does not hold exactly one image".to_owned());
    };
    only.layers
        .iter()
        .map(|path| match sums.get(path) {
            Some(sum) => Ok(format!("sha256:{sum}")),
            None => Err(format!("its export lacks layer {path}")),
        })
        .collect()
}
