//! Files that are there as a whole or not at all: written under another name, brought to the disk, then renamed.
//!
//! The steps are made known to tests, which kill the process between any two of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

/// How files that are being written are called; whatever else has such a name is swept away.
pub(super) const TEMPORARY: &str = ".mcb-";
/// After this nobody writes to such a file any more.
const ABANDONED: Duration = Duration::from_secs(600);

/// For names of temporary files.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Identifies what a file holds without reading it: a replaced file is another one, a changed one has another time.
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

/// Puts `bytes` in the place of `path`, on the disk when this returns. `mode` is for a new file; an old one's stays.
pub(super) fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    put(path, bytes, mode)?;
    sync_folder(parent(path)?)?;
    step("done");
    Ok(())
}

/// Likewise, but the folder is left to be synced by the caller.
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

/// Removes a file, for good when this returns. False where there is none.
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

/// Brings names in a folder to the disk.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The bytes of a regular file of at most `limit` bytes, and its stamp. `None` where there is none; pipes and devices
/// are errors, not waits.
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
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(facts.len().min(limit)).unwrap_or(0) + 1);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(Some((bytes, FileVersion::of(&facts))))
}

/// Removes a file that a killed process left behind. True where `name` is one of those, old or not.
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

/// A file that goes if it does not get its name.
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
