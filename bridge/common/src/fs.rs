//! Files that are written completely or not at all, and read up to a limit only.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

/// Replaces the content of `path`: readers and crashes see the old file or the new one, never a
/// part. The folder must exist. `mode` holds for a new file as well as for a replaced one.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write_atomic_with(path, mode, |file| file.write_all(bytes))
}

/// Like [`write_atomic`], with a function that writes the content.
pub fn write_atomic_with(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut temporary = temporary_beside(path)?;
    write(temporary.as_file_mut())?;
    let file = temporary.as_file();
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    File::open(folder_of(path))?.sync_all()
}

/// Like [`write_atomic`], but only where `is_unchanged` still says so when everything else is done;
/// returns whether the file was replaced. Two processes that use this function for files of one
/// folder take turns, so that neither undoes what the other has just written.
pub fn write_atomic_if(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    is_unchanged: impl FnOnce() -> io::Result<bool>,
) -> io::Result<bool> {
    let folder = File::open(folder_of(path))?;
    let mut temporary = temporary_beside(path)?;
    temporary.write_all(bytes)?;
    let file = temporary.as_file();
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    folder.lock()?;
    if !is_unchanged()? {
        return Ok(false);
    }
    temporary.persist(path).map_err(|error| error.error)?;
    folder.sync_all()?;
    Ok(true)
}

/// Like [`write_atomic`] for a cache: readers see the old file or the new one, but after a crash of
/// the machine the file may be empty, as nothing waits for the disk.
pub fn write_cache(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut temporary = temporary_beside(path)?;
    temporary.write_all(bytes)?;
    temporary
        .as_file()
        .set_permissions(Permissions::from_mode(mode))?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    NamedTempFile::new_in(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Opens a regular file for reading. A pipe or device is an error; opening it does not wait.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Reads a regular file of at most `limit` bytes; a longer one is an error.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?
        .take(limit + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn written_file_replaces_the_old_one_and_its_mode() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        for (bytes, mode) in [(&b"one"[..], 0o600), (b"two", 0o644)] {
            write_atomic(&path, bytes, mode).expect("a writable folder");
            assert_eq!(fs::read(&path).expect("just written"), bytes);
            let found = fs::metadata(&path).expect("just written").permissions();
            assert_eq!(found.mode() & 0o7777, mode);
        }
    }

    #[test]
    fn file_that_changed_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        for (unchanged, expected) in [(true, "new"), (false, "theirs")] {
            fs::write(&path, "theirs").expect("a writable folder");
            let written = write_atomic_if(&path, b"new", 0o600, || Ok(unchanged));
            assert_eq!(written.expect("a writable folder"), unchanged);
            assert_eq!(fs::read_to_string(&path).expect("there"), expected);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        fs::write(&path, "old").expect("a writable folder");
        let failed = write_atomic_with(&path, 0o644, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("enough"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).expect("still there"), b"old");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn only_short_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        fs::write(&path, "1234").expect("a writable folder");
        assert_eq!(read_bounded(&path, 4).expect("short enough"), b"1234");
        assert!(read_bounded(&path, 3).is_err());
        assert!(read_bounded(folder.path(), 4).is_err());
        assert!(read_bounded(Path::new("/dev/zero"), 4).is_err());
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a FIFO");
        assert!(read_bounded(&fifo, 4).is_err(), "without waiting");
    }
}
