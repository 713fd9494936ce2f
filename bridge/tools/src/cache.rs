//! The last tool list of each server on disk, so that tools can be found before their server runs.
//!
//! There is one file per definition, named by the definition's hash, so a changed definition never shows the tools of
//! the old one. A lost cache costs a start of each server and nothing else.

use std::io;
use std::path::{Path, PathBuf};

use bridge_catalog::Definition;
use bridge_common::fs::{read_bounded, write_cache};
use serde::{Deserialize, Serialize};

use crate::Tool;

/// Bytes of a list; larger lists are not cached.
const FILE_LIMIT: u64 = 16 << 20;
/// Lists in the cache; the oldest are removed first.
const FILES: usize = 512;
/// Version of the file format.
const VERSION: u32 = 1;

/// A folder of tool lists.
#[derive(Debug, Clone)]
pub struct ToolCache {
    folder: PathBuf,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    server: &'a str,
    tools: &'a [Tool],
}

#[derive(Deserialize)]
struct Stored {
    version: u32,
    tools: Vec<Tool>,
}

impl ToolCache {
    /// The cache in the folder `tools` of `cache_home`, which is `$XDG_CACHE_HOME/mcp-code-bridge`.
    pub fn below(cache_home: &Path) -> Self {
        Self {
            folder: cache_home.join("tools"),
        }
    }

    fn path(&self, definition: &Definition) -> PathBuf {
        self.folder.join(format!("{}.json", definition.hash))
    }

    /// The list for this definition; `None` where there is none or it cannot be read.
    pub(crate) fn read(&self, definition: &Definition) -> Option<Vec<Tool>> {
        let bytes = read_bounded(&self.path(definition), FILE_LIMIT).ok()?;
        let stored: Stored = serde_json::from_slice(&bytes).ok()?;
        (stored.version == VERSION).then_some(stored.tools)
    }

    /// Writes a list. A cache that cannot be written is worth a line in the log and nothing else.
    pub(crate) fn store(&self, definition: &Definition, tools: &[Tool]) {
        if let Err(error) = self.write(definition, tools) {
            tracing::debug!(server.name = %definition.name, %error, "the tool list was not cached");
        }
    }

    fn write(&self, definition: &Definition, tools: &[Tool]) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let bytes = serde_json::to_vec(&Written {
            version: VERSION,
            server: &definition.name.0,
            tools,
        })?;
        if bytes.len() as u64 > FILE_LIMIT {
            // The list that is cached is out of date.
            return match std::fs::remove_file(self.path(definition)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        write_cache(&self.path(definition), &bytes, 0o600)?;
        self.prune()
    }

    /// Removes the oldest files over the limit, which may be temporary ones of a killed process.
    fn prune(&self) -> io::Result<()> {
        let files = std::fs::read_dir(&self.folder)?.filter_map(|item| {
            let item = item.ok()?;
            Some((item.metadata().ok()?.modified().ok()?, item.path()))
        });
        let mut files: Vec<_> = files.collect();
        if files.len() > FILES {
            files.sort();
            let surplus = files.len() - FILES;
            for (_, path) in files.into_iter().take(surplus) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}
