//! Where definitions are looked for.
//!
//! Nothing here reads the process's environment: callers and tests pass it in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything that decides which files are considered and how they are read.
#[derive(Clone)]
pub struct SearchPaths {
    /// The user's home folder.
    pub home: PathBuf,
    /// The folder the bridge was started in.
    pub cwd: PathBuf,
    /// `MCP_BRIDGE_STATE_DIR`.
    pub state_dir: PathBuf,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub config_home: PathBuf,
    /// `MCP_SERVERS_CONFIG`: one more file, the last in precedence.
    pub extra: Option<PathBuf>,
    /// `MCP_BRIDGE_ALLOW_SELF_SERVER`.
    pub allow_self: bool,
    /// The running program, to recognise definitions that start it again.
    pub executable: Option<PathBuf>,
    /// The platform whose folders are used.
    pub platform: Platform,
    /// Variables for expansion and for `PATH`.
    pub environment: BTreeMap<String, String>,
}

impl std::fmt::Debug for SearchPaths {
    /// Leaves out the environment, which holds secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SearchPaths")
            .field("home", &self.home)
            .field("cwd", &self.cwd)
            .field("state_dir", &self.state_dir)
            .finish_non_exhaustive()
    }
}

/// Where clients keep their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// `~/.config`
    Linux,
    /// `~/Library/Application Support`
    MacOs,
}

impl SearchPaths {
    /// The usual paths for this environment.
    pub fn new(
        home: PathBuf,
        cwd: PathBuf,
        state_dir: PathBuf,
        environment: BTreeMap<String, String>,
    ) -> Self {
        let variable = |name: &str| {
            environment
                .get(name)
                .map(|value| value.trim())
                .filter(|value| !value.is_empty())
        };
        let config_home = variable("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let extra = variable("MCP_SERVERS_CONFIG").map(|path| match path.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => cwd.join(path),
        });
        let allow_self = variable("MCP_BRIDGE_ALLOW_SELF_SERVER").is_some_and(|value| {
            matches!(
                value.to_ascii_lowercase().as_str(),
                "1" | "true" | "yes" | "on"
            )
        });
        Self {
            config_home: config_home.unwrap_or_else(|| home.join(".config")),
            extra,
            allow_self,
            executable: None,
            platform: if cfg!(target_os = "macos") {
                Platform::MacOs
            } else {
                Platform::Linux
            },
            home,
            cwd,
            state_dir,
            environment,
        }
    }

    /// A path as people write it: `~/.claude.json`, `.mcp.json`.
    pub fn shown(&self, path: &Path) -> String {
        if self.cwd != self.home
            && let Ok(rest) = path.strip_prefix(&self.cwd)
        {
            return format!("./{}", rest.display());
        }
        match path.strip_prefix(&self.home) {
            Ok(rest) => format!("~/{}", rest.display()),
            Err(_) => path.display().to_string(),
        }
    }

    /// A folder named by a variable, or the usual one.
    pub(super) fn folder(&self, variable: &str, usual: PathBuf) -> PathBuf {
        let named = self
            .environment
            .get(variable)
            .filter(|value| !value.trim().is_empty());
        named.map_or(usual, |value| self.cwd.join(value.trim()))
    }

    /// A path below the configuration folder; if that was moved, the usual one counts as well.
    pub(super) fn configured(&self, path: &str) -> Vec<PathBuf> {
        let mut paths = vec![
            self.config_home.join(path),
            self.home.join(".config").join(path),
        ];
        paths.dedup();
        paths
    }

    /// The spellings under which the working directory may be a key.
    pub(super) fn here(&self) -> Vec<String> {
        let mut spellings = vec![self.cwd.to_string_lossy().into_owned()];
        if let Ok(real) = self.cwd.canonicalize() {
            spellings.push(real.to_string_lossy().into_owned());
        }
        spellings.dedup();
        spellings
    }
}
