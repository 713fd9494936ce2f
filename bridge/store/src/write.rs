//! The store's atomic write: a file is written under another name, synced, then renamed.
//!
//! Unlike `bridge_common::fs`, it keeps the mode of an old file, leaves the sync of the folder to the caller where many
//! files are written, and names its steps to tests, which kill the process between any two of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

/// The prefix of temporary files; abandoned ones are swept away.
pub(super) const TEMPORARY: &str = ".mcb-";
/// A temporary file of this age is abandoned.
const ABANDONED: Duration = Duration::from_secs(600);

/// Makes names of temporary files unique.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Identifies the content of a file without reading it: a replaced file has another inode, a changed one another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileVersion {
    inode: u64,
    pub(super) size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl FileVersion {
    pub(super) fn of(facts: &fs::Metadata) -> Self {
        Self {
            inode: facts.ino(),
            size: facts.size(),
            changed: (facts.ctime(), facts.ctime_nsec()),
            modified: (facts.mtime(), facts.mtime_nsec()),
        }
    }

    /// When the file was last written.
    pub(super) fn modified(self) -> super::Timestamp {
        let (seconds, nanoseconds) = self.modified;
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let rest = u32::try_from(nanoseconds).unwrap_or(0);
        super::Timestamp::from(
            SystemTime::UNIX_EPOCH + Duration::new(seconds, rest.min(999_999_999)),
        )
    }
}

/// Replaces the content of `path`, on the disk when this returns. `mode` is for a new file; an old file keeps its own.
pub(super) fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    put(path, bytes, mode)?;
    sync_folder(parent(path)?)?;
    step("done");
    Ok(())
}

/// Like [`replace`], but the caller syncs the folder.
pub(super) fn put(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = parent(path)?;
    let before = fs::symlink_metadata(path).ok();
    let kept = before
        .filter(fs::Metadata::is_file)
        .map(|facts| facts.mode() & 0o777);
    let temporary = Temporary::new(folder);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary.0)?;
    step("made");
    if let Some(kept) = kept {
        file.set_permissions(fs::Permissions::from_mode(kept))?;
    }
    file.write_all(bytes)?;
    step("written");
    file.sync_all()?;
    step("synced");
    fs::rename(&temporary.0, path)?;
    step("renamed");
    std::mem::forget(temporary);
    Ok(())
}

/// Removes a file, on the disk when this returns; false if it does not exist.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => {
            step("removed");
            sync_folder(parent(path)?)?;
            step("done");
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Syncs the names in a folder.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The bytes of a regular file of at most `limit` bytes, and its version; `None` if it does not exist. Pipes and devices
/// are errors and are not waited for.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Option<(Vec<u8>, FileVersion)>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(facts.len().min(limit)).unwrap_or(0) + 1);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(Some((bytes, FileVersion::of(&facts))))
}

/// Removes a temporary file that a killed process left behind. Returns whether `name` is a temporary file.
pub(super) fn sweep(folder: &Path, name: &str) -> bool {
    if !name.starts_with(TEMPORARY) {
        return false;
    }
    let path = folder.join(name);
    let modified = fs::symlink_metadata(&path).and_then(|facts| facts.modified());
    let age = modified.map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
    if age.is_ok_and(|age| age > ABANDONED) {
        let _ = fs::remove_file(path);
    }
    true
}

fn parent(path: &Path) -> io::Result<&Path> {
    path.parent()
        .ok_or_else(|| io::Error::other("a file without a folder"))
}

/// A temporary file, removed unless it is renamed.
struct Temporary(PathBuf);

impl Temporary {
    fn new(folder: &Path) -> Self {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let time = super::Timestamp::now().epoch().to_bits();
        Self(folder.join(format!(
            "{TEMPORARY}{}-{number}-{time:x}",
            std::process::id()
        )))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(not(test))]
fn step(_: &str) {}

#[cfg(test)]
use super::tests::step;
