//! A home folder for one test, so that it reads nothing of the machine's user and leaves nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Folders for one bridge, owned by the user it runs as.
pub struct Home {
    folder: TempDir,
    owner: Option<User>,
}

/// A user of this machine, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The user's number (UID).
    pub uid: u32,
    /// The number of the user's group (GID).
    pub gid: u32,
}

impl User {
    /// Looks a name up in `/etc/passwd`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        let line = passwd
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(Self {
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    }
}

impl Home {
    /// Makes a new home. With an owner it is given to that user, which takes root.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(owner: Option<User>) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("mcb-home.")
            .tempdir()
            .expect("a temporary folder can be made");
        let home = Self { folder, owner };
        for name in ["", "home", "state", "config", "cache", "run", "tmp"] {
            home.make(name);
        }
        home
    }

    fn make(&self, name: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).expect("folders can be made in a temporary folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode can be set");
        self.give(&path);
    }

    fn give(&self, path: &Path) {
        if let Some(user) = self.owner {
            chown(path, Some(user.uid), Some(user.gid)).expect("root can give a file away");
        }
    }

    /// The folder that holds everything.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A path inside the home.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file for the bridge to read and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("folders can be made in a temporary folder");
            self.give(parent);
        }
        fs::write(&path, content).expect("a file can be written in a temporary folder");
        self.give(&path);
        path
    }

    /// A command that runs as the owner of this home, with a fresh environment that leads to it.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = match self.owner {
            None => Command::new(program.as_ref()),
            Some(user) => {
                // setpriv replaces itself with the program, so the process ID stays.
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={}", user.uid))
                    .arg(format!("--regid={}", user.gid))
                    .args(["--clear-groups", "--inh-caps=-all", "--"])
                    .arg(program.as_ref());
                command
            }
        };
        command
            .env_clear()
            .current_dir(self.join("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("LANG", "C.UTF-8")
            .env("HOME", self.join("home"))
            .env("TMPDIR", self.join("tmp"))
            .env("XDG_RUNTIME_DIR", self.join("run"))
            .env("XDG_CONFIG_HOME", self.join("config"))
            .env("XDG_CACHE_HOME", self.join("cache"))
            .env("XDG_STATE_HOME", self.join("state"))
            .env("MCP_BRIDGE_STATE_DIR", self.join("state/MCPs"));
        command
    }

    /// Sockets in this home.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        use std::os::unix::fs::FileTypeExt;
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_socket() => found.push(entry.path()),
                    _ => {}
                }
            }
        }
        found
    }
}
