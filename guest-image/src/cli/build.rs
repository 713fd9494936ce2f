//! The command `guest-image build`.

use std::path::PathBuf;

use clap::Args;
use guest_image::{Digests, Progress as _};
use serde_json::json;

use super::terminal::Terminal;
use super::{Error, ImageArguments, print};

#[derive(Debug, Args)]
pub(super) struct Build {
    /// Write guest-<flavour>-<arch>.tar to this folder [default: the cache only].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    image: ImageArguments,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Build {
    pub(super) fn run(self) -> Result<(), Error> {
        let mut options = self.image.options();
        options.out = self.out;
        let terminal = Terminal::new();
        let built = guest_image::build(&options, &terminal)?;
        if let Some(lock) = options.lock.as_ref().filter(|_| !built.committed) {
            terminal.warn(&format!(
                "this is NOT the committed image: to use it, set MCP_BRIDGE_IMAGE_LOCK={}",
                lock.display()
            ));
        }
        if options.runtime.is_some() {
            terminal.warn(
                "this image does not have the built-in runtime: no committed digests exist for it",
            );
        }
        drop(terminal);
        let digests = &built.digests;
        if self.json {
            let result = json!({
                "archive": built.archive,
                "committed": built.committed,
                "unpacked_bytes": built.unpacked_bytes,
                "entries": built.entries,
                "digests": as_json(digests),
            });
            return print(&serde_json::to_string_pretty(&result)?);
        }
        print(&format!(
            "{}\n{}",
            built.archive.display(),
            digests.manifest
        ))
    }
}

/// The digests in the form that `--json` prints.
pub(super) fn as_json(digests: &Digests) -> serde_json::Value {
    json!({
        "architecture": digests.architecture,
        "manifest": digests.manifest,
        "config": digests.config,
        "diff_ids": digests.diff_ids,
        "archive_bytes": digests.archive_bytes,
    })
}
