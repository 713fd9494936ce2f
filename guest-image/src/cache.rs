//! The cache: inputs by their sum, finished images by their manifest. All of it can be deleted at any time.

use std::env;
use std::path::{Path, PathBuf};

use crate::digests::Digests;

/// `$XDG_CACHE_HOME/mcp-code-bridge`, or `~/.cache/mcp-code-bridge`; a folder for temporary files where there is no home.
pub fn cache_dir() -> PathBuf {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(etcetera::home_dir().ok()?.join(".cache")))
        .unwrap_or_else(env::temp_dir)
        .join("mcp-code-bridge")
}

/// The finished archive of that image, if the cache has it. Whoever uses it has to verify it.
pub fn cached_archive(digests: &Digests) -> Option<PathBuf> {
    let path = image_path(&cache_dir(), &digests.manifest);
    let length = path
        .metadata()
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .len();
    digests
        .archive_bytes
        .is_none_or(|expected| expected == length)
        .then_some(path)
}

/// Where an input lies.
pub(crate) fn input_path(cache: &Path, sha256: &str) -> PathBuf {
    cache.join("inputs").join("sha256").join(sha256)
}

/// Where an image lies.
pub(crate) fn image_path(cache: &Path, manifest: &str) -> PathBuf {
    let hex = manifest.strip_prefix("sha256:").unwrap_or(manifest);
    cache.join("images").join(format!("{hex}.tar"))
}
