//! The cache: inputs by SHA-256, finished images by manifest digest. It can be deleted at any time.

use std::env;
use std::path::{Path, PathBuf};

use crate::digests::Digests;

/// `$XDG_CACHE_HOME/mcp-code-bridge`, else `~/.cache/mcp-code-bridge`, else a folder for temporary
/// files.
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

/// The cached archive of the image with these digests, not yet verified; `None` where there is
/// none.
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

/// The path of a cached input.
pub(crate) fn input_path(cache: &Path, sha256: &str) -> PathBuf {
    cache.join("inputs").join("sha256").join(sha256)
}

/// The path of a cached image archive.
pub(crate) fn image_path(cache: &Path, manifest: &str) -> PathBuf {
    let hex = manifest.strip_prefix("sha256:").unwrap_or(manifest);
    cache.join("images").join(format!("{hex}.tar"))
}
