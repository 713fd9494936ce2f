//! `guest-image verify`.

use std::path::PathBuf;

use clap::Args;
use guest_image::{Architecture, Digests};

use super::terminal::Terminal;
use super::{Error, print};

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The archive, as `build` writes it.
    archive: PathBuf,
    /// The set of packages that it should be of.
    #[arg(long, default_value = "base")]
    flavour: String,
    /// The machine that it should be for [default: this one].
    #[arg(long, value_name = "amd64|arm64", conflicts_with = "lock")]
    arch: Option<Architecture>,
    /// Take the digests beside this lock instead of the committed ones.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
}

impl Verify {
    pub(super) fn run(self) -> Result<(), Error> {
        let expected = if let Some(lock) = &self.lock {
            Digests::read(lock)?
        } else {
            let architecture = self.arch.or_else(Architecture::host);
            let architecture = architecture.map_or("", Architecture::name).to_owned();
            let flavour = self.flavour;
            guest_image::committed(&flavour, &architecture).ok_or(Error::NotCommitted {
                flavour,
                architecture,
            })?
        };
        let terminal = Terminal::new();
        let verified = guest_image::verify(&self.archive, &expected, &terminal)?;
        drop(terminal);
        print(&format!(
            "{}\nverified: {} blobs, {} bytes, Python for {}",
            expected.manifest, verified.blobs, verified.bytes, verified.architecture
        ))
    }
}
