//! The environment of the process: variables, folders, the user and the programs of the host.
//!
//! The program takes it once when it starts and hands it down; nothing else reads `std::env`. Tests
//! make one of their own with [`HostEnv::fake`] or [`HostEnv::fake_below`].

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::io_reason;
use super::programs;

/// The search path of a process that was given none.
const DEFAULT_SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The environment of the process. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct HostEnv {
    variables: Arc<BTreeMap<OsString, OsString>>,
    /// From the user database, for a process without `HOME`.
    user_home: Option<PathBuf>,
    uid: u32,
    root: PathBuf,
    temporary: PathBuf,
    cwd: Result<PathBuf, String>,
    executable: Option<PathBuf>,
}

impl HostEnv {
    /// The environment of this process, as it is now.
    pub fn of_process() -> Self {
        Self {
            variables: Arc::new(std::env::vars_os().collect()),
            user_home: std::env::home_dir(),
            uid: rustix::process::getuid().as_raw(),
            root: PathBuf::from("/"),
            temporary: std::env::temp_dir(),
            cwd: std::env::current_dir().map_err(|error| error.to_string()),
            executable: std::env::current_exe().ok(),
        }
    }

    /// An environment of these variables only: for tests, and for settings that are judged by
    /// themselves.
    pub fn fake<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self {
            variables: Arc::new(variables),
            user_home: None,
            uid: rustix::process::getuid().as_raw(),
            root: PathBuf::from("/"),
            temporary: PathBuf::from("/tmp"),
            cwd: Ok(PathBuf::from("/")),
            executable: None,
        }
    }

    /// For tests: a host whose files lie below `root`, with `root/home` as the user's home and
    /// `root/tmp` for temporary files.
    pub fn fake_below<'a>(
        root: &Path,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        Self {
            user_home: Some(root.join("home")),
            root: root.to_owned(),
            temporary: root.join("tmp"),
            cwd: Ok(root.to_owned()),
            ..Self::fake(variables)
        }
    }

    /// For tests: the same host as another user sees it.
    #[must_use]
    pub fn as_user(self, uid: u32) -> Self {
        Self { uid, ..self }
    }

    /// A variable as it was given; an empty one counts as unset, as in most tools.
    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// A variable that is set, not empty, and valid UTF-8.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.raw(name)?.to_str()
    }

    /// All variables whose names and values are valid UTF-8, empty ones included.
    pub fn variables(&self) -> BTreeMap<String, String> {
        self.variables
            .iter()
            .filter_map(|(name, value)| {
                Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
            })
            .collect()
    }

    /// The user's home: `HOME`, or what the user database says. Always an absolute path.
    pub fn home(&self) -> Option<PathBuf> {
        self.raw("HOME")
            .map(PathBuf::from)
            .or_else(|| self.user_home.clone())
            .filter(|home| home.is_absolute())
    }

    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub fn config_home(&self) -> Option<PathBuf> {
        self.folder_or_in_home("XDG_CONFIG_HOME", ".config")
    }

    /// `XDG_CACHE_HOME`, or `~/.cache`.
    pub fn cache_home(&self) -> Option<PathBuf> {
        self.folder_or_in_home("XDG_CACHE_HOME", ".cache")
    }

    fn folder_or_in_home(&self, variable: &str, usual: &str) -> Option<PathBuf> {
        self.raw(variable)
            .map(PathBuf::from)
            .or_else(|| Some(self.home()?.join(usual)))
    }

    /// The numeric id of the user.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The folder for temporary files.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// The working directory, or why it cannot be found.
    pub fn cwd(&self) -> Result<&Path, &str> {
        match &self.cwd {
            Ok(folder) => Ok(folder),
            Err(problem) => Err(problem),
        }
    }

    /// The file that this process was started from.
    pub fn executable(&self) -> Option<&Path> {
        self.executable.as_deref()
    }

    /// `NO_COLOR` is set.
    pub fn no_colour(&self) -> bool {
        self.raw("NO_COLOR").is_some()
    }

    /// An absolute path on the host.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The search path for programs, with the folder for setuid programs in front where the host
    /// has it.
    pub fn search_path(&self) -> OsString {
        let given = self.given_search_path();
        std::env::join_paths(programs::folders(&self.root, given)).unwrap_or_else(|_| given.into())
    }

    /// An executable file on the search path.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        programs::find_below(&self.root, name, self.given_search_path(), Path::new(""))
    }

    fn given_search_path(&self) -> &OsStr {
        self.raw("PATH")
            .unwrap_or_else(|| OsStr::new(DEFAULT_SEARCH_PATH))
    }

    /// The user's runtime folder: the one that `XDG_RUNTIME_DIR` names if it really belongs to the
    /// user, or the usual one.
    pub fn runtime_dir(&self) -> RuntimeDir {
        let usual = self.at(&format!("/run/user/{}", self.uid));
        let named = self.raw("XDG_RUNTIME_DIR").map(PathBuf::from);
        let problem = match &named {
            Some(folder) => self
                .not_owned(folder)
                .map(|reason| format!("XDG_RUNTIME_DIR is {}: {reason}", folder.display())),
            None if self.uid == 0 => None,
            None => Some("XDG_RUNTIME_DIR is not set".to_owned()),
        };
        let good = match (named, &problem) {
            (Some(folder), None) => Some(folder),
            _ => self.not_owned(&usual).is_none().then_some(usual),
        };
        // Without a login session the folder is missing; only lingering makes one that lasts.
        let problem = problem.filter(|_| good.is_none()).map(|reason| {
            format!(
                "{reason}; make a lasting one with: sudo loginctl enable-linger {}",
                self.uid
            )
        });
        RuntimeDir {
            folder: good,
            problem,
        }
    }

    /// Why a folder does not belong to this user.
    fn not_owned(&self, folder: &Path) -> Option<String> {
        match folder.metadata() {
            Err(error) => Some(io_reason(&error)),
            Ok(facts) if !facts.is_dir() => Some("not a folder".to_owned()),
            Ok(facts) if facts.uid() != self.uid => {
                Some(format!("belongs to uid {}, not {}", facts.uid(), self.uid))
            }
            Ok(_) => None,
        }
    }
}

impl fmt::Debug for HostEnv {
    /// Without the variables, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEnv")
            .field("uid", &self.uid)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// The user's runtime folder, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeDir {
    /// A folder that exists and belongs to the user.
    pub folder: Option<PathBuf>,
    /// What is wrong and how to fix it; set only where no folder is usable.
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_folder_of_another_user_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let wrong = folder.path().join("run/user/0");
        std::fs::create_dir_all(&wrong).expect("a folder");
        let wrong = wrong.to_string_lossy();
        let host = HostEnv::fake_below(folder.path(), [("XDG_RUNTIME_DIR", &*wrong)]);
        let other = host.uid() + 1000;
        let found = host.as_user(other).runtime_dir();
        assert_eq!(found.folder, None);
        let problem = found.problem.expect("a problem");
        assert!(problem.contains("belongs to uid"), "{problem}");
        assert!(problem.contains("enable-linger"), "{problem}");
    }

    #[test]
    fn usual_runtime_folder_is_used_where_the_variable_is_unset() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = HostEnv::fake_below(folder.path(), []);
        let usual = folder.path().join(format!("run/user/{}", host.uid()));
        std::fs::create_dir_all(&usual).expect("a folder");
        assert_eq!(
            host.runtime_dir(),
            RuntimeDir {
                folder: Some(usual),
                problem: None
            }
        );
    }

    #[test]
    fn setuid_wrappers_come_first_on_the_search_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = HostEnv::fake_below(folder.path(), [("PATH", "/usr/bin")]);
        assert_eq!(host.search_path(), "/usr/bin");
        let wrappers = folder.path().join("run/wrappers/bin");
        std::fs::create_dir_all(&wrappers).expect("a folder");
        let expected = format!("{}:/usr/bin", wrappers.display());
        assert_eq!(host.search_path(), OsString::from(expected));
    }

    #[test]
    fn folders_come_from_variables_or_lie_in_the_home() {
        let host = HostEnv::fake([("HOME", "/h"), ("XDG_CACHE_HOME", "/c"), ("EMPTY", "")]);
        assert_eq!(host.config_home(), Some("/h/.config".into()));
        assert_eq!(host.cache_home(), Some("/c".into()));
        assert_eq!(host.raw("EMPTY"), None);
        assert_eq!(HostEnv::fake([("HOME", "relative")]).home(), None);
        assert!(host.variables().contains_key("EMPTY"));
    }
}
