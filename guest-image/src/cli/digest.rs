//! The command `guest-image digest`.

use std::path::{Path, PathBuf};

use clap::Args;
use guest_image::{Architecture, Digests};

use super::build::as_json;
use super::terminal::Terminal;
use super::{Error, ImageArguments, print};

#[derive(Debug, Args)]
pub(super) struct Digest {
    #[command(flatten)]
    image: ImageArguments,
    /// Build the image for every architecture (or that of --lock) and write digests beside the
    /// locks.
    ///
    /// Run this in the source tree after each change of a lock or of the guest's runtime.
    #[arg(long)]
    write: bool,
    /// Folder with the committed locks [default: guest-image/lock, here or above].
    #[arg(long, value_name = "DIR", requires = "write")]
    dir: Option<PathBuf>,
    /// Print all digests as JSON.
    #[arg(long)]
    json: bool,
}

impl Digest {
    pub(super) fn run(self) -> Result<(), Error> {
        if self.write {
            return self.write();
        }
        let digests = if let Some(path) = &self.image.lock {
            Digests::read(path)?
        } else {
            let host = Architecture::host().map(|host| host.name().to_owned());
            let architecture = self.image.arch.or(host).unwrap_or_default();
            let flavour = self.image.flavour;
            guest_image::committed(&flavour, &architecture).ok_or(Error::NotCommitted {
                flavour,
                architecture,
            })?
        };
        if self.json {
            return print(&serde_json::to_string_pretty(&as_json(&digests))?);
        }
        print(&digests.manifest)
    }

    fn write(self) -> Result<(), Error> {
        let own = self.image.lock.clone();
        let only = self.image.arch.clone();
        let mut options = self.image.options();
        let folder = match (&own, self.dir) {
            (Some(_), _) => PathBuf::new(),
            (None, Some(folder)) => folder,
            (None, None) => lock_folder().ok_or(Error::NoLockFolder)?,
        };
        let terminal = Terminal::new();
        for architecture in Architecture::ALL {
            if own.is_none()
                && only
                    .as_ref()
                    .is_some_and(|only| only != architecture.name())
            {
                continue;
            }
            let path = match &own {
                Some(path) => path.clone(),
                None => folder.join(format!("{}.{architecture}.json", options.flavour)),
            };
            options.lock = Some(path.clone());
            options.architecture = None;
            let (lock, digests) = guest_image::digests(&options, &terminal)?;
            let written = digests.write(&lock, &path)?;
            print(&format!("{} {}", digests.manifest, written.display()))?;
            if own.is_some() {
                break;
            }
        }
        Ok(())
    }
}

/// The folder `guest-image/lock` of the source tree around the current folder.
fn lock_folder() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors()
        .map(|folder| folder.join(Path::new("guest-image/lock")))
        .find(|folder| folder.is_dir())
}
