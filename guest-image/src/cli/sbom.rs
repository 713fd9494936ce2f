//! The command `guest-image sbom`.

use std::path::PathBuf;

use clap::Args;
use guest_image::{Architecture, Digests, Lock};

use super::{Error, print};

#[derive(Debug, Args)]
pub(super) struct Sbom {
    /// Set of packages.
    #[arg(long, default_value = "base")]
    flavour: String,
    /// Architecture of the image [default: that of this machine].
    #[arg(long, value_name = "amd64|arm64", conflicts_with = "lock")]
    arch: Option<Architecture>,
    /// Use this lock instead of a committed one.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
}

impl Sbom {
    pub(super) fn run(self) -> Result<(), Error> {
        let (lock, digests) = if let Some(path) = &self.lock {
            (Lock::read(path)?, Digests::read(path).ok())
        } else {
            let architecture = self
                .arch
                .or_else(Architecture::host)
                .unwrap_or(Architecture::Amd64);
            let lock = Lock::embedded(&self.flavour, architecture)?;
            (
                lock,
                guest_image::committed(&self.flavour, architecture.name()),
            )
        };
        print(&guest_image::sbom(&lock, digests.as_ref())?)
    }
}
