//! The last tool list of each server on disk, so that tools can be found before their server runs.
//!
//! One file per definition, named by its hash: a changed definition never shows tools of the old one. Losing the cache
//! costs nothing but a start.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Definition, Tool, read};

/// Larger lists are not kept.
const FILE_LIMIT: u64 = 16 << 20;
/// Lists kept; the oldest go first.
const FILES: usize = 512;
/// Changes with the meaning of the files.
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
    /// The cache below `cache_home`, `$XDG_CACHE_HOME/mcp-code-bridge`.
    pub fn below(cache_home: &Path) -> Self {
        Self {
            folder: cache_home.join("tools"),
        }
    }

    fn path(&self, definition: &Definition) -> PathBuf {
        self.folder.join(format!("{}.json", definition.hash))
    }

    /// The list kept for this definition. Whatever cannot be read counts as none.
    pub(super) fn read(&self, definition: &Definition) -> Option<Vec<Tool>> {
        let (text, _) = read::text(&self.path(definition), FILE_LIMIT).ok()??;
        let stored: Stored = serde_json::from_str(&text).ok()?;
        (stored.version == VERSION).then_some(stored.tools)
    }

    /// Keeps a list. A cache that cannot be written is worth a line in the log and nothing else.
    pub(super) fn store(&self, definition: &Definition, tools: &[Tool]) {
        if let Err(error) = self.write(definition, tools) {
            tracing::debug!(server.name = %definition.name, %error, "tool list not cached");
        }
    }

    fn write(&self, definition: &Definition, tools: &[Tool]) -> std::io::Result<()> {
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
            // What was kept is out of date.
            return std::fs::remove_file(self.path(definition)).or_else(|error| {
                if read::is_absent(&error) {
                    Ok(())
                } else {
                    Err(error)
                }
            });
        }
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&bytes)?;
        file.persist(self.path(definition))
            .map_err(|error| error.error)?;
        self.prune()
    }

    /// Removes the oldest lists over the limit, and what a killed process left half written.
    fn prune(&self) -> std::io::Result<()> {
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
