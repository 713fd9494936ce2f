//! Byte code for every module, made by the guest's own interpreter run on the host through the guest's own loader.
//!
//! Byte code depends on the interpreter and what it has run before, and on nothing of the machine: hash seed, locale and
//! paths are pinned here, the interpreter starts from sources without byte code, `unchecked-hash` leaves out times, and
//! the architecture leaves no trace. So an image for another machine is compiled by the interpreter for this one, of the
//! same version.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::architecture::Architecture;
use crate::rootfs::{PYTHON, STDLIB};
use crate::tree::{self, Node, Tree, TreePath};
use crate::unpack::SITE_PACKAGES;

const DRIVER: &str = include_str!("compile/driver.py");
/// Far more than it takes under emulation.
const DEADLINE: Duration = Duration::from_secs(600);
/// Interpreters at a time, where there are that many processors.
const MAX_PROCESSES: usize = 8;

/// Why modules cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No guest of this machine's kind exists.
    #[error("images are built on Linux on amd64 or arm64: the guest's own Python has to run here")]
    Host,
    /// The scratch folder cannot be used.
    #[error("cannot use the scratch folder {path:?} (TMPDIR chooses another)")]
    Scratch {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The interpreter does not run.
    #[error(
        "cannot start the guest's Python in {path:?}; is that folder on a file system mounted noexec? (TMPDIR chooses another)"
    )]
    Start {
        /// The scratch folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It failed.
    #[error("the guest's Python could not compile its modules ({status}): {said}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// The end of what it said.
        said: String,
    },
    /// It did not end.
    #[error("the guest's Python did not finish compiling within {} s", DEADLINE.as_secs())]
    Deadline,
    /// A result has no place in the image.
    #[error(transparent)]
    Tree(#[from] tree::Error),
}

/// The interpreter of a guest, laid out on the host so that it can run.
pub(crate) struct Interpreter {
    scratch: tempfile::TempDir,
    architecture: Architecture,
}

impl Interpreter {
    /// Lays out the interpreter and its library from `rootfs`, which has to be for this machine.
    pub(crate) fn prepare(rootfs: &Tree, architecture: Architecture) -> Result<Self, Error> {
        let scratch = tempfile::Builder::new()
            .prefix("guest-image-")
            .tempdir()
            .map_err(|source| Error::Scratch {
                path: std::env::temp_dir(),
                source,
            })?;
        let interpreter = Self {
            scratch,
            architecture,
        };
        let root = interpreter.root();
        for (path, node) in rootfs.iter() {
            // It compiles without importing anything that wheels bring.
            let wanted = path.is_within("usr/bin") || path.is_within("usr/lib");
            if wanted && !path.is_within(SITE_PACKAGES) {
                write_node(&root, path, node)?;
            }
        }
        Ok(interpreter)
    }

    /// Adds to `tree` the byte code of each module in it that `wanted` says yes to.
    pub(crate) fn compile(
        &self,
        tree: &mut Tree,
        wanted: impl Fn(&TreePath) -> bool,
    ) -> Result<(), Error> {
        let work = tempfile::tempdir_in(self.scratch.path()).map_err(|source| Error::Scratch {
            path: self.scratch.path().to_owned(),
            source,
        })?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processes = processors.min(MAX_PROCESSES);
        let mut jobs = vec![Vec::new(); processes];
        for (path, data) in tree.files() {
            let Some(target) = pyc_path(path).filter(|_| wanted(path)) else {
                continue;
            };
            let number: usize = jobs.iter().map(Vec::len).sum();
            let source = work.path().join(format!("{number}.py"));
            fs::write(&source, data).map_err(|error| Error::Scratch {
                path: source.clone(),
                source: error,
            })?;
            jobs[number % processes].push(Job {
                source,
                name: format!("/{path}"),
                target,
            });
        }
        let mut running = Vec::new();
        for (number, jobs) in jobs.iter().enumerate().filter(|(_, jobs)| !jobs.is_empty()) {
            running.push(self.start(work.path(), number, jobs)?);
        }
        let deadline = Instant::now() + DEADLINE;
        for process in &mut running {
            process.finish(deadline)?;
        }
        for job in jobs.into_iter().flatten() {
            let compiled = job.compiled();
            match fs::read(&compiled) {
                Ok(data) => tree.insert(job.target, Node::file(data))?,
                // What cannot be compiled cannot be imported either, and seldom is meant to be.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && job.target.is_within(SITE_PACKAGES) => {}
                Err(source) => {
                    return Err(Error::Scratch {
                        path: compiled,
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    fn start(&self, work: &Path, number: usize, jobs: &[Job]) -> Result<Running, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Scratch { path, source }
        };
        let list = work.join(format!("jobs{number}"));
        let lines: String = jobs.iter().map(Job::line).collect();
        fs::write(&list, lines).map_err(failed(&list))?;
        let said = work.join(format!("said{number}"));
        let stderr = File::create(&said).map_err(failed(&said))?;
        let root = self.root();
        let libraries = root.join("usr/lib").join(self.architecture.triplet());
        let python = root.join(PYTHON);
        let child = Command::new(libraries.join(self.architecture.loader()))
            .args(["--inhibit-cache", "--library-path"])
            .arg(&libraries)
            .arg("--argv0")
            .arg(&python)
            .arg(&python)
            .args(["-B", "-s", "-S", "-P", "-W", "ignore", "-c", DRIVER])
            .arg(&list)
            .current_dir(work)
            .env_clear()
            .envs([
                ("PYTHONHASHSEED", "0"),
                ("LC_ALL", "C.UTF-8"),
                ("TZ", "UTC"),
                ("PYTHONUTF8", "1"),
            ])
            .env("PYTHONHOME", root.join("usr"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|source| Error::Start { path: root, source })?;
        Ok(Running { child, said })
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("root")
    }
}

#[derive(Clone)]
struct Job {
    source: PathBuf,
    name: String,
    target: TreePath,
}

impl Job {
    fn compiled(&self) -> PathBuf {
        self.source.with_extension("pyc")
    }

    fn line(&self) -> String {
        format!(
            "{}\0{}\0{}\n",
            self.source.display(),
            self.compiled().display(),
            self.name
        )
    }
}

/// A running interpreter, killed when dropped.
struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    fn finish(&mut self, deadline: Instant) -> Result<(), Error> {
        let status = loop {
            let status = self.child.try_wait();
            match status.map_err(|source| Error::Start {
                path: self.said.clone(),
                source,
            })? {
                Some(status) => break status,
                None if Instant::now() > deadline => return Err(Error::Deadline),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if status.success() {
            return Ok(());
        }
        let said = fs::read(&self.said).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[said.len().saturating_sub(1000)..])
            .trim()
            .to_owned();
        Err(Error::Failed { status, said })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a module of the distribution is compiled: all of the standard library, and of the wheels what is no test. Those
/// are more than half of some wheels, and hardly anybody runs them in a guest.
pub(crate) fn is_module(path: &TreePath) -> bool {
    path.is_within(STDLIB) && !(path.is_within(SITE_PACKAGES) && path.as_str().contains("/tests/"))
}

/// Where Python looks for the byte code of a module; `None` for what is no module.
fn pyc_path(path: &TreePath) -> Option<TreePath> {
    let (folder, name) = (path.parent()?, path.name().strip_suffix(".py")?);
    TreePath::known(&format!("{folder}/__pycache__/{name}.cpython-314.pyc")).ok()
}

fn write_node(root: &Path, path: &TreePath, node: &Node) -> Result<(), Error> {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let full = root.join(path.as_str());
    let written = match node {
        Node::Directory { .. } => fs::create_dir_all(&full),
        Node::File { executable, data } => fs::write(&full, data).and_then(|()| {
            let mode = if *executable { 0o755 } else { 0o644 };
            fs::set_permissions(&full, fs::Permissions::from_mode(mode))
        }),
        // An absolute link would lead to the host's files; none that the interpreter needs is absolute.
        Node::Link { target } if target.starts_with('/') => Ok(()),
        Node::Link { target } => symlink(target, &full),
    };
    written.map_err(|source| Error::Scratch { path: full, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_code_lies_where_python_looks() {
        let pyc =
            |path: &str| pyc_path(&TreePath::known(path).expect(path)).map(|path| path.to_string());
        assert_eq!(
            pyc("usr/lib/a.py").as_deref(),
            Some("usr/lib/__pycache__/a.cpython-314.pyc")
        );
        assert_eq!(pyc("usr/lib/a.so"), None);
    }
}
