//! Compiles every module to byte code. The guest's own interpreter does it, run on the host through
//! the guest's own loader.
//!
//! Byte code depends on the interpreter and on what it has run before, but not on the machine: hash
//! seed, locale and paths are pinned here, the interpreter starts from sources without byte code,
//! `unchecked-hash` leaves out times, and the architecture leaves no trace. So an image for another
//! architecture is compiled by the interpreter for this one, of the same version.

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
/// Many times what compiling takes under emulation.
const DEADLINE: Duration = Duration::from_secs(600);
/// The most interpreters that run at a time.
const MAX_PROCESSES: usize = 8;

/// Why modules cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot build images on this machine: the guest's Python has to run here; use Linux on \
        amd64 or arm64"
    )]
    Host,
    #[error("cannot use the scratch folder {path:?} (TMPDIR chooses another)")]
    Scratch { path: PathBuf, source: io::Error },
    #[error(
        "cannot start the guest's Python in {path:?} (if that folder is on a file system mounted \
        noexec, choose another with TMPDIR)"
    )]
    Start { path: PathBuf, source: io::Error },
    #[error("the guest's Python could not compile its modules ({status}): {stderr}")]
    Failed {
        status: ExitStatus,
        /// The last 1000 bytes of it.
        stderr: String,
    },
    #[error("the guest's Python did not finish compiling within {} s", DEADLINE.as_secs())]
    Deadline,
    #[error(transparent)]
    Tree(#[from] tree::Error),
}

/// A guest's interpreter in a scratch folder of the host, removed on drop.
pub(crate) struct Interpreter {
    scratch: tempfile::TempDir,
    architecture: Architecture,
}

impl Interpreter {
    /// Writes the interpreter and its library from `rootfs`, which must be for this machine.
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
            // Compiling imports nothing from wheels.
            let wanted = path.is_within("usr/bin") || path.is_within("usr/lib");
            if wanted && !path.is_within(SITE_PACKAGES) {
                write_node(&root, path, node)?;
            }
        }
        Ok(interpreter)
    }

    /// Adds to `tree` the byte code of each of its modules for which `wanted` is true.
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
                // A module of a wheel that cannot be compiled cannot be imported either, and is
                // seldom meant to be.
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

    fn start(&self, work: &Path, number: usize, jobs: &[Job]) -> Result<CompileProcess, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Scratch { path, source }
        };
        let list = work.join(format!("jobs{number}"));
        let lines: String = jobs.iter().map(Job::line).collect();
        fs::write(&list, lines).map_err(failed(&list))?;
        let stderr_path = work.join(format!("stderr{number}"));
        let stderr = File::create(&stderr_path).map_err(failed(&stderr_path))?;
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
        Ok(CompileProcess { child, stderr_path })
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("root")
    }
}

/// One module to compile.
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

/// A running interpreter, killed on drop.
struct CompileProcess {
    child: Child,
    stderr_path: PathBuf,
}

impl CompileProcess {
    fn finish(&mut self, deadline: Instant) -> Result<(), Error> {
        let status = loop {
            let status = self.child.try_wait();
            match status.map_err(|source| Error::Start {
                path: self.stderr_path.clone(),
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
        let stderr = fs::read(&self.stderr_path).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(1000)..])
            .trim()
            .to_owned();
        Err(Error::Failed { status, stderr })
    }
}

impl Drop for CompileProcess {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a module of the packages is compiled: all of the standard library, and all of the wheels
/// except their tests. Tests are more than half of some wheels, and are hardly ever run in a guest.
pub(crate) fn is_module(path: &TreePath) -> bool {
    path.is_within(STDLIB) && !(path.is_within(SITE_PACKAGES) && path.as_str().contains("/tests/"))
}

/// Where Python looks for the byte code of a module; `None` for a file that is not a module.
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
        // An absolute link would lead to the host's files. The interpreter needs none of them.
        Node::Link { target } if target.starts_with('/') => Ok(()),
        Node::Link { target } => symlink(target, &full),
    };
    written.map_err(|source| Error::Scratch { path: full, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_code_is_stored_where_python_looks_for_it() {
        let pyc =
            |path: &str| pyc_path(&TreePath::known(path).expect(path)).map(|path| path.to_string());
        assert_eq!(
            pyc("usr/lib/a.py").as_deref(),
            Some("usr/lib/__pycache__/a.cpython-314.pyc")
        );
        assert_eq!(pyc("usr/lib/a.so"), None);
    }
}
