//! The command `guest-image lock`.

use std::fs;
use std::path::{Path, PathBuf};

use bridge_common::fs::write_atomic;
use clap::{ArgGroup, Args};
use guest_image::{Architecture, Digests, Input, Lock};

use super::terminal::Terminal;
use super::{Error, SourceArguments, print};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").multiple(true)))]
pub(super) struct LockCommand {
    /// Update the packages to today's versions in Debian's index, which apt fetches and verifies.
    #[arg(long, group = "change")]
    refresh: bool,
    /// Add the wheels in this folder to the lock, and the Debian libraries that they need.
    #[arg(long, value_name = "DIR", group = "change", requires = "out")]
    wheels: Option<PathBuf>,
    /// Set of packages.
    #[arg(long, default_value = "base")]
    flavour: String,
    /// Architecture of the image [default: that of this machine; all if --out is a folder].
    #[arg(long, value_name = "amd64|arm64")]
    arch: Option<Architecture>,
    /// Start from this lock instead of the committed one.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Where to write the new lock: a file that ends in .json, or a folder [default: the cache].
    #[arg(long, value_name = "FILE.json|DIR", requires = "change")]
    out: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArguments,
}

impl LockCommand {
    pub(super) fn run(self) -> Result<(), Error> {
        let host = self
            .arch
            .or_else(Architecture::host)
            .unwrap_or(Architecture::Amd64);
        if !self.refresh && self.wheels.is_none() {
            let text = self.start(host)?.to_json()?;
            return print(text.trim_end());
        }
        let folder = match &self.out {
            Some(out) if out.extension().is_some_and(|end| end == "json") => None,
            Some(out) => Some(out.clone()),
            None => Some(guest_image::cache_dir().join("locks")),
        };
        // Wheels are for one architecture.
        let one = self.arch.is_some() || self.lock.is_some() || self.wheels.is_some();
        let all = self.out.is_some() && folder.is_some() && !one;
        let architectures = if all {
            Architecture::ALL.to_vec()
        } else {
            vec![host]
        };
        let terminal = Terminal::new();
        for architecture in architectures {
            let old = self.start(architecture)?;
            let mut new = old.clone();
            if let Some(wheels) = &self.wheels {
                new = guest_image::pin_wheels(&new, wheels, &terminal)?;
            }
            if self.refresh {
                new = guest_image::refresh(&new, &self.sources.sources(), &terminal)?;
            }
            let path = match (&folder, &self.out) {
                (Some(folder), _) => {
                    folder.join(format!("{}.{}.json", new.flavour, new.architecture))
                }
                (None, Some(file)) => file.clone(),
                (None, None) => continue,
            };
            for line in changes(&old, &new) {
                terminal.line(&line);
            }
            write(&new, &path)?;
            print(&path.display().to_string())?;
        }
        Ok(())
    }

    fn start(&self, architecture: Architecture) -> Result<Lock, Error> {
        Ok(match &self.lock {
            Some(path) => Lock::read(path)?,
            None => Lock::embedded(&self.flavour, architecture)?,
        })
    }
}

/// One line for each package that was added, removed or changed its version.
fn changes(old: &Lock, new: &Lock) -> Vec<String> {
    let version = |lock: &Lock, input: &Input| {
        let same = |other: &&Input| {
            std::mem::discriminant(*other) == std::mem::discriminant(input)
                && other.name() == input.name()
        };
        let found = lock.inputs.iter().find(same);
        found.map(|input| input.version().to_owned())
    };
    let gone = old
        .inputs
        .iter()
        .filter(|input| version(new, input).is_none());
    let gone = gone.map(|input| format!("removed {} {}", input.name(), input.version()));
    let now = new.inputs.iter().filter_map(|input| {
        let (name, now) = (input.name(), input.version());
        match version(old, input) {
            None => Some(format!("added {name} {now}")),
            Some(before) if before != now => Some(format!("{name} {before} -> {now}")),
            Some(_) => None,
        }
    });
    now.chain(gone).collect()
}

/// Writes a lock, and removes digests beside it that belong to an older one.
fn write(lock: &Lock, path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Write {
        path: path.to_owned(),
        source,
    };
    let same = Lock::read(path).is_ok_and(|old| old == *lock);
    if same {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let text = lock.to_json()?;
    let digests = Digests::path(path);
    if digests.exists() {
        fs::remove_file(digests).map_err(failed)?;
    }
    write_atomic(path, text.as_bytes(), 0o644).map_err(failed)
}
