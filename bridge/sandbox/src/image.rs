//! The guest image: which one it must be, whether the engine's is that one, and loading it when it is absent.
//!
//! An image is known by digests that were embedded when the bridge was built, or are in a lock that the user named. It is
//! asked for by ID and never by tag, and never pulled.

use std::path::PathBuf;

use tokio::sync::Mutex;

use bridge_engine::{self as engine, Engine, ImageFacts};
use bridge_settings::ImageSettings;

mod archive;
mod contents;
mod deep;
mod error;
mod expected;

pub use error::Error;
pub use expected::Expected;

/// Told of progress: words for people, how much is done, and of how much.
pub type Tell<'a> = &'a (dyn Fn(&str, u64, Option<u64>) + Send + Sync);

/// The tag that the archive gives its image. For people; looked at only to say why an image is not there.
const TAG: &str = "localhost/mcp-code-bridge-guest:base";

/// So many packages are named, at most.
const MOST_PACKAGES: usize = 100;

/// What the image has besides Python itself, each with its version, as far as a lock says so.
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
    packages.truncate(MOST_PACKAGES);
    packages
}

/// The guest image, as settings name it.
#[derive(Debug)]
pub struct Images {
    settings: ImageSettings,
    /// One load at a time: guests that start together share it.
    loading: Mutex<()>,
}

impl Images {
    /// Looks at nothing yet.
    pub fn new(settings: ImageSettings) -> Self {
        Self {
            settings,
            loading: Mutex::default(),
        }
    }

    /// What the image must be on that architecture.
    pub fn expected(&self, architecture: &str) -> Result<Expected, Error> {
        Expected::read(&self.settings, architecture)
    }

    /// The engine's image, verified; loaded first if it is absent and an archive is at hand.
    pub async fn ready(&self, engine: &dyn Engine, tell: Tell<'_>) -> Result<ImageFacts, Error> {
        let expected = self.expected(&engine.identity().architecture)?;
        if let Some(facts) = find(engine, &expected).await? {
            return Ok(facts);
        }
        let _alone = self.loading.lock().await;
        if let Some(facts) = find(engine, &expected).await? {
            return Ok(facts);
        }
        match self.archive(&expected) {
            Some(archive) => load(engine, &expected, archive, tell).await,
            None => Err(absent(engine, &expected).await?),
        }
    }

    /// The engine's image, verified; nothing is loaded.
    pub async fn verify(&self, engine: &dyn Engine) -> Result<ImageFacts, Error> {
        let expected = self.expected(&engine.identity().architecture)?;
        match find(engine, &expected).await? {
            Some(facts) => Ok(facts),
            None => Err(absent(engine, &expected).await?),
        }
    }

    /// As [`Images::verify`], and every layer is taken out of the engine and hashed.
    pub async fn verify_deep(
        &self,
        engine: &dyn Engine,
        tell: Tell<'_>,
    ) -> Result<ImageFacts, Error> {
        let expected = self.expected(&engine.identity().architecture)?;
        let facts = self.verify(engine).await?;
        deep::verify(engine, &facts, &expected, tell).await?;
        Ok(facts)
    }

    /// Loads the archive even if the image seems to be there.
    pub async fn load(&self, engine: &dyn Engine, tell: Tell<'_>) -> Result<ImageFacts, Error> {
        let expected = self.expected(&engine.identity().architecture)?;
        let _alone = self.loading.lock().await;
        let archive = self.archive(&expected).ok_or_else(|| Error::NoArchive {
            expected: expected.id().to_owned(),
        })?;
        load(engine, &expected, archive, tell).await
    }

    /// What names the image, where it is another one than was built in: a lock of the user's own, or a reference.
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

    /// The archive that settings name, else the one that the build left in the cache.
    fn archive(&self, expected: &Expected) -> Option<PathBuf> {
        self.settings
            .archive
            .clone()
            .or_else(|| guest_image::cached_archive(expected.digests()?))
    }
}

/// The image by any of its IDs, and as it must be; `None` where the engine has none of that ID.
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
    archive: PathBuf,
    tell: Tell<'_>,
) -> Result<ImageFacts, Error> {
    let total = archive::verify(&archive, expected, tell).await?;
    let sent = |bytes: u64| tell("loading the guest image", bytes.min(total), Some(total));
    engine.load_image(&archive, &sent).await?;
    match find(engine, expected).await? {
        Some(facts) => Ok(facts),
        None => Err(Error::Archive {
            path: archive,
            problem: format!(
                "the engine loaded it and has no image {} now",
                expected.id()
            ),
        }),
    }
}

/// Why the image is not there: an image with its tag may be another version of it, or another's work.
async fn absent(engine: &dyn Engine, expected: &Expected) -> Result<Error, engine::Error> {
    Ok(match engine.image(TAG).await? {
        Some(found) => expected.mismatch(found.id, " (tag moved?)"),
        None => Error::Absent {
            expected: expected.id().to_owned(),
        },
    })
}
