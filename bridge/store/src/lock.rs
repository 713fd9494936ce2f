//! One writer at a time, over all processes: a file that is locked while somebody writes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Error;

/// How long to wait for other processes that write.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first and the longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// The lock of a folder.
#[derive(Debug)]
pub(super) struct Lock {
    folder: PathBuf,
    own: Mutex<()>,
}

/// Holds the lock until it is dropped or the process ends.
pub(super) struct Locked<'a> {
    _file: File,
    _own: MutexGuard<'a, ()>,
}

impl Lock {
    pub(super) fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            own: Mutex::default(),
        }
    }

    /// Waits for the lock; creates the folder if it is missing.
    pub(super) fn take(&self) -> Result<Locked<'_>, Error> {
        // Threads of this process wait in a queue first, not in a loop.
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self
            .open()
            .map_err(Error::io("the state folder cannot be written"))?;
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            match file.try_lock() {
                Ok(()) => {
                    return Ok(Locked {
                        _file: file,
                        _own: own,
                    });
                }
                Err(TryLockError::WouldBlock) if began.elapsed() > PATIENCE => {
                    return Err(Error::Busy);
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
                Err(TryLockError::Error(error)) => {
                    return Err(Error::io("the state folder cannot be locked")(error));
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn open(&self) -> io::Result<File> {
        let path = self.folder.join(".lock");
        let open = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            options.open(&path)
        };
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.folder)?;
                open()
            }
            other => other,
        }
    }
}
