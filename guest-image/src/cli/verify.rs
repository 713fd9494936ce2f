//! The command `guest-image verify`.

use std::path::PathBuf;

use clap::Args;
use guest_image::{Architecture, Archive, Digests};

use super::terminal::Terminal;
use super::{Error, print};

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// Image archive, as written by `guest-image build`.
    archive: PathBuf,
    /// Set of packages that the image should have.
    #[arg(long, default_value = "base")]
    flavour: String,
    /// Architecture that the image should have [default: that of this machine].
    #[arg(long, value_name = "amd64|arm64", conflicts_with = "lock")]
    arch: Option<Architecture>,
    /// Use the digests beside this lock instead of the committed ones.
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
        let verified = Archive::open(&self.archive)?.inspect(&expected, &terminal)?;
        drop(terminal);
        print(&format!(
            "{}\nverified: {} blobs, {} bytes, Python for {}",
            expected.manifest, verified.blobs, verified.bytes, expected.architecture
        ))
    }
}
