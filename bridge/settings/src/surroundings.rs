//! What the environment says of the user's folders, taken once with the settings. Where engines are said to be is the
//! engine module's own affair.

use std::ffi::OsString;
use std::path::PathBuf;

use super::sources::Variables;

/// The parts of the environment that the bridge reads. Empty variables count as unset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The home directory: `HOME`, else what the user database says.
    pub home: Option<PathBuf>,
    /// `PATH`.
    pub path: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, else `~/.config`.
    pub config_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`, else `~/.cache`.
    pub cache_home: Option<PathBuf>,
}

impl Surroundings {
    /// Reads them from `variables`.
    pub fn read(variables: &Variables) -> Self {
        let path = |name: &str| variables.raw(name).map(PathBuf::from);
        let home = path("HOME").or_else(|| variables.user_home());
        let under_home = |part: &str| home.as_ref().map(|home| home.join(part));
        Self {
            path: variables.raw("PATH"),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            config_home: path("XDG_CONFIG_HOME").or_else(|| under_home(".config")),
            cache_home: path("XDG_CACHE_HOME").or_else(|| under_home(".cache")),
            home,
        }
    }
}

/// `NO_COLOR` is set. Asked for also where settings could not be read.
pub fn no_colour() -> bool {
    Variables::of_process().raw("NO_COLOR").is_some()
}
