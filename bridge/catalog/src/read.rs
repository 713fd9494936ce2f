//! Reading files that anybody may have put there: bounded, never blocking, text only.
//!
//! Also takes the fingerprints by which a change is noticed.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::problem::Reason;

/// Distinguishes states of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// The change was so recent that another one may have the same time.
    unsettled: bool,
}

/// The coarsest clock of a file system that matters.
const TICK: Duration = Duration::from_millis(50);

impl Fingerprint {
    fn of(metadata: &Metadata) -> Self {
        let recent = metadata
            .modified()
            .ok()
            .and_then(|moment| SystemTime::now().duration_since(moment).ok());
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            unsettled: recent.is_none_or(|age| age < TICK),
        }
    }

    /// The current state of a path; `None` if nothing is there.
    pub(super) fn take(path: &Path) -> Option<Self> {
        std::fs::metadata(path)
            .ok()
            .map(|metadata| Self::of(&metadata))
    }

    /// Whether the path may have changed between `before` and `now`.
    pub(super) fn may_differ(before: Option<Self>, now: Option<Self>) -> bool {
        match (before, now) {
            (None, None) => false,
            (Some(before), Some(now)) => {
                before.unsettled
                    || Self {
                        unsettled: false,
                        ..before
                    } != Self {
                        unsettled: false,
                        ..now
                    }
            }
            _ => true,
        }
    }

    /// Identifies the file itself, whatever its name.
    pub(super) fn identity(self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// Reads a text file of at most `limit` bytes; `Ok(None)` if it does not exist.
pub(super) fn text(path: &Path, limit: u64) -> Result<Option<(String, Fingerprint)>, Reason> {
    let Some((bytes, fingerprint)) = bytes(path, limit)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|_| Reason::NotText)?;
    let text = text
        .strip_prefix('\u{feff}')
        .map(str::to_owned)
        .unwrap_or(text);
    if text.contains('\0') {
        return Err(Reason::NotText);
    }
    Ok(Some((text, fingerprint)))
}

fn bytes(path: &Path, limit: u64) -> Result<Option<(Vec<u8>, Fingerprint)>, Reason> {
    let Some(file) = open(path)? else {
        return Ok(None);
    };
    let metadata = file
        .metadata()
        .map_err(|error| Reason::Unreadable(plain(&error)))?;
    if !metadata.is_file() {
        return Err(Reason::NotAFile(kind(&metadata)));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed, and never the size that the file claims: it may grow, or be under /proc.
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Reason::Unreadable(plain(&error)))?;
    if bytes.len() as u64 > limit {
        return Err(Reason::TooLarge(limit >> 20));
    }
    Ok(Some((bytes, Fingerprint::of(&metadata))))
}

fn open(path: &Path) -> Result<Option<File>, Reason> {
    // Devices and sockets are not even opened: opening alone can have effects.
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(Reason::NotAFile(kind(&metadata))),
        Ok(_) => {}
        Err(error) if is_absent(&error) => {
            // A dangling link is a mistake of the user, not an absent file.
            let dangling = std::fs::symlink_metadata(path).is_ok();
            return if dangling {
                Err(Reason::Unreadable("the link leads nowhere".to_owned()))
            } else {
                Ok(None)
            };
        }
        Err(error) => return Err(Reason::Unreadable(plain(&error))),
    }
    // Without O_NONBLOCK, a FIFO that replaced the file meanwhile would block forever.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Reason::Unreadable(plain(&error))),
    }
}

/// Whether an error means that the path does not exist.
pub(super) fn is_absent(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
    )
}

/// An error without its number: "permission denied".
pub(super) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_lowercase().chain(characters).collect())
        .unwrap_or_default()
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "folder"
    } else if kind.is_fifo() {
        "FIFO"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1 << 20;

    fn failure(path: &Path) -> String {
        text(path, LIMIT).expect_err("must not be read").to_string()
    }

    #[test]
    fn other_than_text_files_are_named_and_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(text(&path("absent"), LIMIT), Ok(None));
        assert_eq!(failure(folder.path()), "is a folder, not a file");

        let made = std::process::Command::new("mkfifo")
            .arg(path("fifo"))
            .status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo");
        assert_eq!(failure(&path("fifo")), "is a FIFO, not a file");

        std::os::unix::fs::symlink(path("loop"), path("loop")).unwrap();
        assert!(
            failure(&path("loop")).contains("symbolic link"),
            "{}",
            failure(&path("loop"))
        );
        std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
        assert_eq!(
            failure(&path("dangling")),
            "cannot be read: the link leads nowhere"
        );

        assert_eq!(failure(Path::new("/dev/zero")), "is a device, not a file");

        std::fs::write(path("nul"), b"{}\0").unwrap();
        assert_eq!(failure(&path("nul")), "is not UTF-8 text");
        std::fs::write(path("latin"), b"{\"a\": \"\xe4\"}").unwrap();
        assert_eq!(failure(&path("latin")), "is not UTF-8 text");
        std::fs::write(path("large"), vec![b' '; (1 << 20) + 1]).unwrap();
        assert_eq!(failure(&path("large")), "is larger than 1 MiB");
    }

    #[test]
    fn byte_order_mark_is_not_part_of_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bom");
        std::fs::write(&path, "\u{feff}{}").unwrap();
        assert_eq!(text(&path, LIMIT).unwrap().unwrap().0, "{}");
    }

    #[test]
    fn a_change_within_one_tick_of_the_clock_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "1").unwrap();
        let fresh = Fingerprint::take(&path);
        assert!(
            Fingerprint::may_differ(fresh, fresh),
            "just written: looked at again"
        );

        let old = SystemTime::now() - Duration::from_secs(60);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();
        let settled = Fingerprint::take(&path);
        assert!(!Fingerprint::may_differ(settled, Fingerprint::take(&path)));
        std::fs::write(&path, "22").unwrap();
        assert!(Fingerprint::may_differ(settled, Fingerprint::take(&path)));
        std::fs::remove_file(&path).unwrap();
        assert!(Fingerprint::may_differ(settled, Fingerprint::take(&path)));
        assert!(!Fingerprint::may_differ(None, Fingerprint::take(&path)));
    }
}
