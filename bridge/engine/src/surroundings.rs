//! What is around the process that says where engines may be: standard variables, folders and programs.
//!
//! `CONTAINER_HOST`, `DOCKER_HOST` and the like are the engines' own conventions, not settings of the bridge; they are
//! read here, once, and tests put a folder and a map in their place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Variables that say where engines are.
const VARIABLES: [&str; 9] = [
    "CONTAINER_CONNECTION",
    "CONTAINER_HOST",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "PATH",
    "XDG_RUNTIME_DIR",
];

/// What is around the process.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The variables that matter, by name; empty ones are left out.
    variables: BTreeMap<&'static str, String>,
    pub(super) home: Option<PathBuf>,
    pub(super) uid: u32,
    /// `/`, or a folder in its place.
    root: PathBuf,
    /// Where temporary files go.
    pub(super) temporary: PathBuf,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        let variables = VARIABLES
            .into_iter()
            .filter_map(|name| Some((name, std::env::var(name).ok()?)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Self {
            variables,
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            uid: rustix::process::getuid().as_raw(),
            root: PathBuf::from("/"),
            temporary: std::env::temp_dir(),
        }
    }

    /// A variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// An absolute path, in the folder that stands for `/`.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The search path, with the folder where `NixOS` keeps its setuid programs (`newuidmap`) in front.
    pub(super) fn search_path(&self) -> OsString {
        let wrappers = self.at("/run/wrappers/bin");
        let given = self
            .variable("PATH")
            .unwrap_or("/usr/local/bin:/usr/bin:/bin");
        let mut folders: Vec<PathBuf> = std::env::split_paths(given).collect();
        if wrappers.is_dir() && !folders.contains(&wrappers) {
            folders.insert(0, wrappers);
        }
        std::env::join_paths(&folders).unwrap_or_else(|_| given.into())
    }

    /// An executable file on the search path.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.search_path())
            .map(|folder| folder.join(name))
            .find(|file| {
                file.metadata()
                    .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
            })
    }

    /// The user's runtime folder: the one named by `XDG_RUNTIME_DIR` if it is really theirs, else the usual one.
    pub(super) fn runtime_dir(&self) -> RuntimeDir {
        let usual = self.at(&format!("/run/user/{}", self.uid));
        let named = self.variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        let problem = match &named {
            Some(folder) => self
                .not_theirs(folder)
                .map(|reason| format!("XDG_RUNTIME_DIR is {}, which {reason}", folder.display())),
            None if self.uid == 0 => None,
            None => Some("XDG_RUNTIME_DIR is not set".to_owned()),
        };
        let good = match (named, &problem) {
            (Some(folder), None) => Some(folder),
            _ => self.not_theirs(&usual).is_none().then_some(usual),
        };
        // Without the folder there is no login session: only lingering makes one that lasts.
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

    /// Why a folder is not this user's own.
    fn not_theirs(&self, folder: &Path) -> Option<String> {
        match folder.metadata() {
            Err(error) => Some(reason(&error)),
            Ok(facts) if !facts.is_dir() => Some("is no folder".to_owned()),
            Ok(facts) if facts.uid() != self.uid => {
                Some(format!("belongs to uid {}, not {}", facts.uid(), self.uid))
            }
            Ok(_) => None,
        }
    }
}

/// The user's runtime folder, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuntimeDir {
    /// Where it is.
    pub(super) folder: Option<PathBuf>,
    /// What is wrong with it and how to mend it; set only where no good one was found.
    pub(super) problem: Option<String>,
}

/// An input-output error in few words, the same on every platform.
pub(super) fn reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            "connection closed".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Surroundings in a temporary folder.
    pub(crate) fn in_folder(root: &Path, variables: &[(&'static str, &str)]) -> Surroundings {
        Surroundings {
            variables: variables
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            home: Some(root.join("home")),
            uid: rustix::process::getuid().as_raw(),
            root: root.to_owned(),
            temporary: root.join("tmp"),
        }
    }

    #[test]
    fn a_runtime_folder_of_another_user_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let wrong = folder.path().join("run/user/0");
        std::fs::create_dir_all(&wrong).expect("a folder");
        let mut surroundings = in_folder(
            folder.path(),
            &[("XDG_RUNTIME_DIR", &wrong.to_string_lossy())],
        );
        surroundings.uid += 1000;
        let found = surroundings.runtime_dir();
        assert_eq!(found.folder, None);
        let problem = found.problem.expect("a problem");
        assert!(problem.contains("belongs to uid"), "{problem}");
        assert!(problem.contains("enable-linger"), "{problem}");
    }

    #[test]
    fn a_missing_variable_is_made_good_by_the_usual_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let surroundings = in_folder(folder.path(), &[]);
        let usual = folder.path().join(format!("run/user/{}", surroundings.uid));
        std::fs::create_dir_all(&usual).expect("a folder");
        assert_eq!(
            surroundings.runtime_dir(),
            RuntimeDir {
                folder: Some(usual),
                problem: None
            }
        );
    }

    #[test]
    fn setuid_wrappers_come_first_on_the_search_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let surroundings = in_folder(folder.path(), &[("PATH", "/usr/bin")]);
        assert_eq!(surroundings.search_path(), "/usr/bin");
        let wrappers = folder.path().join("run/wrappers/bin");
        std::fs::create_dir_all(&wrappers).expect("a folder");
        let expected = format!("{}:/usr/bin", wrappers.display());
        assert_eq!(surroundings.search_path(), OsString::from(expected));
    }
}
