//! The guest image in the engine: verified, and loaded from an archive if it is missing.
//!
//! An image is identified by digests that were embedded when the bridge was built, or that belong
//! to a lock that the user named. The engine is asked for it by ID, never by tag, and never pulls
//! it.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bridge_common::error::chain;
use tokio::sync::Mutex;

use bridge_engine::{self as engine, Engine, ImageFacts};
use bridge_settings::ImageSettings;

mod archive;
mod deep;
mod error;
mod expected;

pub use error::Error;
pub use expected::Expected;

/// Receives progress: a message for people, how much is done, and of how much.
pub type OnProgress<'a> = &'a (dyn Fn(&str, u64, Option<u64>) + Send + Sync);

/// The tag that the archive gives its image, only used to explain why an image is missing.
const TAG: &str = "localhost/mcp-code-bridge-guest:base";

const MAX_PACKAGES: usize = 100;

/// The Python packages in the image, each with its version, as far as the user's lock has any.
pub fn packages(settings: &ImageSettings) -> Vec<String> {
    let lock = settings.lock.as_deref().map(guest_image::Lock::read);
    let Some(Ok(lock)) = lock else {
        return Vec::new();
    };
    let mut packages: Vec<_> = lock
        .inputs
        .iter()
        .filter(|input| matches!(input, guest_image::Input::Wheel { .. }))
        .map(|input| format!("{} {}", input.name(), input.version()))
        .collect();
    packages.sort();
    packages.truncate(MAX_PACKAGES);
    packages
}

/// The guest image that the settings name.
#[derive(Debug)]
pub struct Images {
    settings: ImageSettings,
    /// What the image must be on the architecture that was asked for first, read once.
    expected: OnceLock<Arc<Expected>>,
    /// Held while loading, so that guests which start together load once.
    loading: Mutex<()>,
}

impl Images {
    /// Reads nothing yet.
    pub fn new(settings: ImageSettings) -> Self {
        Self {
            settings,
            expected: OnceLock::new(),
            loading: Mutex::default(),
        }
    }

    /// What the image must be on that architecture.
    pub fn expected(&self, architecture: &str) -> Result<Arc<Expected>, Error> {
        let known = self.expected.get();
        if let Some(known) = known.filter(|known| known.architecture() == architecture) {
            return Ok(known.clone());
        }
        let read = Arc::new(Expected::read(&self.settings, architecture)?);
        // Fails if it is already set: another engine with another architecture is rare.
        let _ = self.expected.set(read.clone());
        Ok(read)
    }

    /// The engine's image, verified, and loaded first if it is missing and there is an archive.
    pub async fn ready(
        &self,
        engine: &dyn Engine,
        progress: OnProgress<'_>,
    ) -> Result<ImageFacts, Error> {
        let expected = self.expected(&engine.identity().architecture)?;
        if let Some(facts) = find(engine, &expected).await? {
            return Ok(facts);
        }
        let _alone = self.loading.lock().await;
        if let Some(facts) = find(engine, &expected).await? {
            return Ok(facts);
        }
        match self.archive(&expected) {
            Some(archive) => load(engine, &expected, archive, progress).await,
            None => Err(absent(engine, &expected).await?),
        }
    }

    /// The engine's image, verified. Nothing is loaded.
    pub async fn verify(&self, engine: &dyn Engine) -> Result<ImageFacts, Error> {
        let expected = self.expected(&engine.identity().architecture)?;
        match find(engine, &expected).await? {
            Some(facts) => Ok(facts),
            None => Err(absent(engine, &expected).await?),
        }
    }

    /// Like [`Images::verify`], and exports every layer from the engine and hashes it.
    pub async fn verify_deep(
        &self,
        engine: &dyn Engine,
        progress: OnProgress<'_>,
    ) -> Result<ImageFacts, Error> {
        let expected = self.expected(&engine.identity().architecture)?;
        let facts = self.verify(engine).await?;
        deep::verify(engine, &facts, &expected, progress).await?;
        Ok(facts)
    }

    /// Loads the archive even if the engine seems to have the image.
    pub async fn load(
        &self,
        engine: &dyn Engine,
        progress: OnProgress<'_>,
    ) -> Result<ImageFacts, Error> {
        let expected = self.expected(&engine.identity().architecture)?;
        let _alone = self.loading.lock().await;
        let archive = self.archive(&expected).ok_or_else(|| Error::NoArchive {
            expected: expected.id().to_owned(),
        })?;
        load(engine, &expected, archive, progress).await
    }

    /// The user's lock or reference that names the image; `None` for the built-in image.
    pub fn named_by(&self, architecture: &str) -> Option<String> {
        let built_in = Expected::read(&ImageSettings::default(), architecture).ok()?;
        let expected = self.expected(architecture).ok()?;
        if expected.id() == built_in.id() {
            return None;
        }
        let lock = self.settings.lock.as_ref();
        Some(lock.map_or_else(
            || expected.id().to_owned(),
            |lock| lock.display().to_string(),
        ))
    }

    /// Whether there is an archive to load the image from.
    pub fn has_archive(&self, architecture: &str) -> bool {
        let expected = self.expected(architecture);
        expected.is_ok_and(|expected| self.archive(&expected).is_some_and(|path| path.exists()))
    }

    /// The path of the archive in the settings, else of the one in the cache.
    fn archive(&self, expected: &Expected) -> Option<PathBuf> {
        self.settings
            .archive
            .clone()
            .or_else(|| guest_image::cached_archive(expected.digests()?))
    }
}

/// The engine's image with one of the expected IDs, verified; `None` if it has no such image.
async fn find(engine: &dyn Engine, expected: &Expected) -> Result<Option<ImageFacts>, Error> {
    for name in expected.names() {
        if let Some(facts) = engine.image(name).await? {
            expected.check(&facts)?;
            return Ok(Some(facts));
        }
    }
    Ok(None)
}

async fn load(
    engine: &dyn Engine,
    expected: &Expected,
    path: PathBuf,
    progress: OnProgress<'_>,
) -> Result<ImageFacts, Error> {
    let archive = archive::open(&path, expected, progress).await?;
    let total = archive.bytes();
    let sent = |bytes: u64| progress("loading the guest image", bytes.min(total), Some(total));
    let file = archive
        .into_file()
        .map_err(|error| Error::UnreadableArchive {
            problem: chain(&error),
        })?;
    engine.load_image(file, &sent).await?;
    match find(engine, expected).await? {
        Some(facts) => Ok(facts),
        None => Err(Error::Archive {
            expected: expected.id().to_owned(),
            path,
            problem: "the engine loaded it but does not have this image".to_owned(),
        }),
    }
}

/// Why the image is missing: the image with its tag may be another version of it.
async fn absent(engine: &dyn Engine, expected: &Expected) -> Result<Error, engine::Error> {
    Ok(match engine.image(TAG).await? {
        Some(found) => expected.mismatch(found.id, " (was the tag moved?)"),
        None => Error::Absent {
            expected: expected.id().to_owned(),
        },
    })
}

#[cfg(test)]
mod tests;
