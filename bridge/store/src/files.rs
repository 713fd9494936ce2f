//! Project files: what code writes below `/projects` comes to the host after each run, and is there again when the next
//! session starts.
//!
//! Nothing is mounted: a guest names what has changed, and the host decides what it takes. Links are never followed
//! below the folder. If two sessions change a file, the last one wins; a version that it replaces without having seen
//! it is kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::lock::Lock;
use super::write::{self, FileVersion};
use super::{Error, Limits, Origin, Timestamp, journal, path};

/// The folder of replaced files.
const VERSIONS: &str = ".versions/files";
/// The number of older versions of a file.
const KEPT_VERSIONS: usize = 5;
/// Folders nested deeper than this are ignored.
const DEEPEST: usize = 16;
/// The most entries that are examined.
const MOST_ENTRIES: usize = 50_000;
const MODE: u32 = 0o666;

/// What became of files that a guest changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Files that are on the disk now.
    pub files: Vec<String>,
    /// Files that were not taken, with the reasons, and what else a user should know.
    pub notes: Vec<String>,
}

/// The files on the host.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: BTreeMap<String, FileVersion>,
    pub(super) total: u64,
    /// Not project files, or too many.
    pub(super) left_out: Vec<(String, &'static str)>,
}

/// All project files.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    limits: Limits,
    lock: Lock,
}

impl Files {
    pub(super) fn new(folder: PathBuf, limits: Limits) -> Self {
        Self {
            lock: Lock::of(&folder),
            folder,
            limits,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a guest may have anything to see, memories and saved tools included; cheaper than [`Files::find`].
    pub(super) fn are_there(&self) -> bool {
        let mut entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.any(|entry| !path::is_hidden(&entry.file_name()))
    }

    /// Lists the files. Folders that cannot be read are left out: a session starts without them rather than not at all.
    pub(super) fn find(&self) -> Found {
        let mut found = Found::default();
        let mut folders = vec![(self.folder.clone(), String::new(), 0)];
        let mut looked_at = 0;
        while let Some((folder, prefix, depth)) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                looked_at += 1;
                if looked_at > MOST_ENTRIES {
                    found.left_out.push((prefix, "there are too many files"));
                    return found;
                }
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                if (prefix.is_empty() && path::is_taken(&name))
                    || name == "__pycache__"
                    || write::sweep(&folder, &name)
                {
                    continue;
                }
                let path = format!("{prefix}{name}");
                let Ok(facts) = entry.metadata() else {
                    continue;
                };
                if facts.is_dir() && depth < DEEPEST {
                    folders.push((entry.path(), format!("{path}/"), depth + 1));
                } else if !facts.is_file() {
                    found.left_out.push((path, "it is not a regular file"));
                } else if let Some(problem) = path::problem(&path) {
                    found.left_out.push((path, problem));
                } else {
                    let version = FileVersion::of(&facts);
                    found.total += version.size;
                    found.files.insert(path, version);
                }
            }
        }
        found
    }

    /// The bytes of a file, if it still exists.
    pub(super) fn read(&self, path: &str) -> Option<(Vec<u8>, FileVersion)> {
        if !self.is_plain(path) {
            return None;
        }
        write::read(&self.folder.join(path), self.limits.file_bytes)
            .ok()
            .flatten()
    }

    /// Chooses the changed files (given with sizes) that the guest is to send; notes say why others are not taken.
    pub(super) fn choose(
        &self,
        changed: &[(String, u64)],
        deleted: &[String],
    ) -> (Vec<String>, Vec<String>) {
        let found = self.find();
        let mut notes = Vec::new();
        let (mut total, mut count) = (found.total, found.files.len());
        for path in deleted {
            if let Some(version) = found.files.get(path) {
                total -= version.size;
                count -= 1;
            }
        }
        let gone: BTreeSet<&str> = deleted.iter().map(String::as_str).collect();
        let mut taken: HashMap<String, &str> = HashMap::new();
        for path in found
            .files
            .keys()
            .filter(|path| !gone.contains(path.as_str()))
        {
            taken.insert(path::folded(path), path);
        }
        let mut chosen = Vec::new();
        for (path, size) in changed {
            let before = found
                .files
                .get(path)
                .filter(|_| !gone.contains(path.as_str()));
            let rest = total - before.map_or(0, |before| before.size);
            let problem = path::problem(path).map(str::to_owned).or_else(|| {
                let other = taken
                    .get(&path::folded(path))
                    .filter(|other| **other != path)?;
                Some(format!("its name differs from {other} by capitals only"))
            });
            let problem = problem.or_else(|| {
                let many = before.is_none() && count >= self.limits.files;
                many.then(|| {
                    format!(
                        "there are {} files already (store_file_count)",
                        self.limits.files
                    )
                })
            });
            let problem = problem.or_else(|| {
                let large = rest + size > self.limits.file_bytes;
                large.then(|| {
                    format!(
                        "all files together may have {} bytes (store_files)",
                        self.limits.file_bytes
                    )
                })
            });
            if let Some(problem) = problem {
                notes.push(not_kept(path, &problem));
                continue;
            }
            total = rest + size;
            count += usize::from(before.is_none());
            taken.insert(path::folded(path), path);
            chosen.push(path.clone());
        }
        (chosen, notes)
    }

    /// Writes and deletes files; everything is on the disk when this returns. `seen` holds the versions that the session
    /// knows.
    pub(super) fn keep(
        &self,
        files: &[(String, Vec<u8>)],
        deleted: &[String],
        seen: &mut HashMap<String, FileVersion>,
        origin: &Origin,
    ) -> Result<Kept, Error> {
        let _locked = self.lock.take()?;
        // Other sessions may have written since the files were chosen.
        let sizes: Vec<(String, u64)> = files
            .iter()
            .map(|(path, bytes)| (path.clone(), bytes.len() as u64))
            .collect();
        let (chosen, notes) = self.choose(&sizes, deleted);
        let chosen: BTreeSet<String> = chosen.into_iter().collect();
        let mut kept = Kept {
            files: Vec::new(),
            notes,
        };
        let mut folders = BTreeSet::new();
        let (mut written, mut gone) = (Vec::new(), Vec::new());
        for path in deleted {
            if self.delete(path, seen, &mut kept, &mut folders) {
                gone.push(path.as_str());
            }
        }
        for (path, bytes) in files.iter().filter(|(path, _)| chosen.contains(path)) {
            match self.write(path, bytes, seen, &mut kept.notes, &mut folders) {
                Ok(()) => {
                    kept.files.push(path.clone());
                    written.push((path.as_str(), bytes.len() as u64));
                }
                Err(error) => kept.notes.push(not_kept(path, &error.to_string())),
            }
        }
        for folder in folders {
            // A folder that was removed with its last file needs no sync.
            if let Err(error) = write::sync_folder(&folder)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(Error::io("project files could not be written")(error));
            }
        }
        if let Err(error) = journal::note(&self.folder, &written, &gone, origin) {
            let problem = format!("cannot record who wrote the files below /projects: {error}");
            kept.notes.push(problem);
        }
        Ok(kept)
    }

    fn write(
        &self,
        path: &str,
        bytes: &[u8],
        seen: &mut HashMap<String, FileVersion>,
        notes: &mut Vec<String>,
        folders: &mut BTreeSet<PathBuf>,
    ) -> io::Result<()> {
        let target = self.folder.join(path);
        let mut folder = self.folder.clone();
        let parents = path.rsplit_once('/').map_or("", |(parents, _)| parents);
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            let parent = folder.clone();
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(facts) if facts.is_dir() => {}
                Ok(_) => {
                    return Err(io::Error::other(
                        "there is something else in its place on the host",
                    ));
                }
                Err(_) => {
                    fs::create_dir(&folder)?;
                    folders.insert(parent);
                }
            }
        }
        if let Ok(facts) = fs::symlink_metadata(&target) {
            if !facts.is_file() {
                return Err(io::Error::other(
                    "there is something else in its place on the host",
                ));
            }
            let unseen = seen.get(path) != Some(&FileVersion::of(&facts));
            if unseen
                && let Some((older, _)) = write::read(&target, self.limits.file_bytes)?
                && older != bytes
            {
                let version = self.keep_version(path, &older)?;
                notes.push(format!("/projects/{path} was changed by another session meanwhile; its version is kept as {version}"));
            }
        }
        write::put(&target, bytes, MODE)?;
        folders.insert(folder);
        seen.insert(
            path.to_owned(),
            FileVersion::of(&fs::symlink_metadata(&target)?),
        );
        Ok(())
    }

    /// Deletes a file in the version that the session knows; any other version is kept. Returns whether it was deleted.
    fn delete(
        &self,
        path: &str,
        seen: &mut HashMap<String, FileVersion>,
        kept: &mut Kept,
        folders: &mut BTreeSet<PathBuf>,
    ) -> bool {
        let known = seen.remove(path);
        if path::problem(path).is_some() || !self.is_plain(path) {
            return false;
        }
        let target = self.folder.join(path);
        let Ok(facts) = fs::symlink_metadata(&target) else {
            return false;
        };
        if known != Some(FileVersion::of(&facts)) {
            kept.notes.push(format!(
                "/projects/{path} is kept on the host: another session changed it meanwhile"
            ));
            return false;
        }
        if let Err(error) = fs::remove_file(&target) {
            kept.notes.push(format!(
                "/projects/{path} could not be deleted on the host: {error}"
            ));
            return false;
        }
        let mut folder = target.parent().map(Path::to_owned);
        while let Some(empty) = folder.filter(|folder| *folder != self.folder) {
            folders.insert(empty.clone());
            if fs::remove_dir(&empty).is_err() {
                return true;
            }
            folder = empty.parent().map(Path::to_owned);
        }
        folders.insert(self.folder.clone());
        true
    }

    fn keep_version(&self, path: &str, bytes: &[u8]) -> io::Result<String> {
        let folder = self.folder.join(VERSIONS).join(path);
        fs::create_dir_all(&folder)?;
        let mut older: Vec<PathBuf> = fs::read_dir(&folder)?
            .flatten()
            .map(|entry| entry.path())
            .collect();
        older.retain(|path| path.is_file());
        older.sort_unstable();
        let now = Timestamp::now().to_string().replace(':', "");
        let mut name = now.clone();
        for number in 2.. {
            if !folder.join(&name).exists() {
                break;
            }
            name = format!("{now}-{number}");
        }
        write::replace(&folder.join(&name), bytes, MODE)?;
        for path in older.iter().rev().skip(KEPT_VERSIONS - 1) {
            let _ = fs::remove_file(path);
        }
        Ok(format!("{VERSIONS}/{path}/{name}"))
    }

    /// Whether no part of the path is a link.
    fn is_plain(&self, path: &str) -> bool {
        let mut folder = self.folder.clone();
        path.split('/').all(|part| {
            folder.push(part);
            fs::symlink_metadata(&folder).is_ok_and(|facts| !facts.is_symlink())
        })
    }
}

/// The note about a file that was not taken.
pub(super) fn not_kept(path: &str, problem: &str) -> String {
    let shown: String = path.chars().take(120).collect();
    format!("/projects/{} is not kept: {problem}", shown.escape_debug())
}
