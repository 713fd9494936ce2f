//! Where settings come from: flags, variables and the file, in this order, and how the value of one
//! key is found among them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bridge_common::host::HostEnv;
use bridge_common::similar::closest;

use super::file::File;
use super::keys::{KEYS, key};
use super::kinds::Kind;
use super::problem::{Origin, Problem};
use super::setting::Setting;
use super::table::{self, CONFIG_VARIABLE};

/// What the command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// Flag as written (for messages), key, value.
    pub values: Vec<(String, String, OsString)>,
}

/// Looks values up, the first source that has one first, and collects what is wrong with them.
pub(super) struct Reader<'a> {
    overrides: &'a Overrides,
    pub(super) host: &'a HostEnv,
    pub(super) file: File,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// Finds and reads the file.
    pub(super) fn new(overrides: &'a Overrides, host: &'a HostEnv) -> Self {
        let mut problems = Vec::new();
        check_flags(overrides, &mut problems);
        let file = find_file(overrides, host)
            .map(|path| File::read(&path, &mut problems))
            .unwrap_or_default();
        Self {
            overrides,
            host,
            file,
            problems,
        }
    }

    /// Without any source: every setting has its default.
    pub(super) fn without_sources(overrides: &'a Overrides, host: &'a HostEnv) -> Self {
        Self {
            overrides,
            host,
            file: File::default(),
            problems: Vec::new(),
        }
    }

    /// A path that was given, `~` replaced.
    pub(super) fn path<K: Kind>(&self, setting: &Setting<K>) -> Option<PathBuf> {
        let (value, _) = self.raw(setting)?;
        Some(expand(Path::new(&value), self.host))
    }

    /// The value that was given, or the default.
    pub(super) fn value<K: Kind>(&mut self, setting: &Setting<K>) -> K::Value
    where
        K::Value: Default,
    {
        self.value_or(setting, K::Value::default())
    }

    /// The value that was given, or the default; `otherwise` only where the table has neither.
    pub(super) fn value_or<K: Kind>(
        &mut self,
        setting: &Setting<K>,
        otherwise: K::Value,
    ) -> K::Value {
        self.given(setting)
            .or_else(|| setting.default_value())
            .unwrap_or(otherwise)
    }

    /// The value that was given. A bad one is noted and counts as not given.
    pub(super) fn given<K: Kind>(&mut self, setting: &Setting<K>) -> Option<K::Value> {
        self.given_if(setting, |_| true)
    }

    /// As [`Self::given`], with a condition that depends on other settings.
    pub(super) fn given_if<K: Kind>(
        &mut self,
        setting: &Setting<K>,
        agrees: impl FnOnce(&K::Value) -> bool,
    ) -> Option<K::Value> {
        let (value, origin) = self.raw(setting)?;
        let text = value.to_str().map(str::trim);
        let parsed = text
            .and_then(|text| setting.accepts.parse(text))
            .filter(agrees);
        if parsed.is_none() {
            self.problems.push(Problem::Value {
                origin,
                value: value.to_string_lossy().chars().take(200).collect(),
                accepts: setting.accepts.accepts(),
            });
        }
        parsed
    }

    /// What the first source says that has the setting.
    fn raw<K: Kind>(&self, setting: &Setting<K>) -> Option<(OsString, Origin)> {
        let listed = table::ALL.iter().any(|known| known.name() == setting.name);
        debug_assert!(listed, "{} is missing in the table's list", setting.name);
        let mut flags = self.overrides.values.iter().rev();
        if let Some((flag, _, value)) = flags.find(|(_, name, _)| name == setting.name) {
            return Some((value.clone(), Origin::Flag(flag.clone())));
        }
        if let Some(value) = self.host.raw(setting.variable) {
            return Some((value.to_owned(), Origin::Variable(setting.variable)));
        }
        let (value, origin) = self.file.value(setting.name)?;
        Some((value.into(), origin))
    }
}

fn check_flags(overrides: &Overrides, problems: &mut Vec<Problem>) {
    for (flag, name, _) in &overrides.values {
        if key(name).is_none() {
            let meant = closest(name, KEYS.iter().map(|known| known.name)).map(str::to_owned);
            problems.push(Problem::Unknown {
                origin: Origin::Flag(flag.clone()),
                meant,
            });
        }
    }
}

/// A file that was named must be there; the usual places may be empty.
fn find_file(overrides: &Overrides, host: &HostEnv) -> Option<PathBuf> {
    let named = overrides
        .config
        .clone()
        .or_else(|| host.raw(CONFIG_VARIABLE).map(PathBuf::from))
        .map(|path| expand(&path, host));
    let state_flag = overrides
        .values
        .iter()
        .rev()
        .find(|(_, key, _)| key == table::STATE_DIR.name);
    let state = state_flag
        .map(|(.., value)| value.clone())
        .or_else(|| host.raw(table::STATE_DIR.variable).map(OsString::from))
        .map(|path| expand(Path::new(&path), host))
        .or_else(|| host.home().map(|home| home.join("MCPs")));
    let usual = [
        state.map(|state| state.join("bridge.yaml")),
        host.config_home()
            .map(|home| home.join("mcp-code-bridge/bridge.yaml")),
    ];
    named.or_else(|| usual.into_iter().flatten().find(|path| path.exists()))
}

/// `~` at the start is the home directory: no shell expands it in a client's configuration.
fn expand(path: &Path, host: &HostEnv) -> PathBuf {
    match (path.strip_prefix("~"), host.home()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
