//! Deep verification: exports the image from the engine and hashes each of its layers.

use std::sync::{Arc, OnceLock};

use bridge_common::error::chain;
use bridge_engine::{self as engine, Engine, ImageFacts};
use futures_util::TryStreamExt;
use guest_image::exported_layers;
use tokio_util::io::{StreamReader, SyncIoBridge};

use super::{Error, Expected, OnProgress};

/// Compares the digest of every exported layer with the lock, or for a pinned image with the
/// digests that the engine states.
pub(super) async fn verify(
    engine: &dyn Engine,
    facts: &ImageFacts,
    expected: &Expected,
    progress: OnProgress<'_>,
) -> Result<(), Error> {
    progress("hashing every layer of the guest image", 0, None);
    let failed = |error| export_failed(&facts.id, error);
    let pieces = engine.export_image(&facts.id).await.map_err(failed)?;
    let failure = Arc::new(OnceLock::new());
    let seen = failure.clone();
    let pieces = pieces.map_err(move |error| {
        let copy = std::io::Error::other(error.to_string());
        // Reading stops at the first error.
        let _ = seen.set(error);
        copy
    });
    let reader = SyncIoBridge::new(StreamReader::new(pieces));
    let read = tokio::task::spawn_blocking(move || exported_layers(reader)).await;
    if let Some(error) = Arc::into_inner(failure).and_then(OnceLock::into_inner) {
        return Err(failed(error));
    }
    let damaged = |problem: String| Error::Damaged {
        image: facts.id.clone(),
        problem,
    };
    let found = read
        .map_err(|panic| damaged(panic.to_string()))?
        .map_err(|error| damaged(chain(&error)))?;
    let locked = expected
        .digests()
        .map_or(&facts.diff_ids, |digests| &digests.diff_ids);
    if found == *locked {
        return Ok(());
    }
    Err(damaged(format!(
        "expected layers {}, found {}",
        locked.join(" "),
        found.join(" ")
    )))
}

/// Engines know the digest of every file. If one refuses to export an image that it has just
/// described, a file has probably changed.
fn export_failed(image: &str, error: engine::Error) -> Error {
    match error {
        engine::Error::Rejected { .. } => Error::NotExportable {
            image: image.to_owned(),
            problem: error.to_string(),
        },
        other => other.into(),
    }
}
