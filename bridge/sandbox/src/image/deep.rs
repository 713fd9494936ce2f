//! Deep verification: the image is taken out of the engine, and each of its layers hashed.

use std::io::Read;

use futures_util::TryStreamExt;
use tokio_util::io::{StreamReader, SyncIoBridge};

use super::contents::Contents;
use super::{Error, Expected, Tell};
use bridge_engine::{self as engine, Engine, ImageFacts};

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
    let found = Contents::read(reader, "its export")?;
    let [only] = found.images.as_slice() else {
        return Err("its export does not hold exactly one image".to_owned());
    };
    only.layers
        .iter()
        .map(|path| match found.sums.get(path) {
            Some(sum) => Ok(format!("sha256:{sum}")),
            None => Err(format!("its export lacks layer {path}")),
        })
        .collect()
}
