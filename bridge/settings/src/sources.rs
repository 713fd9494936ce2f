//! Where settings come from: flags, variables and the file, in this order, and how the value of one key is found among
//! them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::file::File;
use super::keys::{self, CONFIG_VARIABLE, KEYS, Key};
use super::parse;
use super::problem::{Origin, Problem};
use bridge_common::host::HostEnv;

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

    /// The value of `key` as a path, `~` replaced.
    pub(super) fn path(&mut self, key: Key) -> Option<PathBuf> {
        let (value, _) = self.value(key)?;
        Some(expand(Path::new(&value), self.host))
    }

    /// As [`Self::text`], where `word` says that none is wanted.
    pub(super) fn unless<T>(
        &mut self,
        word: &str,
        key: Key,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (value, _) = self.value(key)?;
        let none = value
            .to_str()
            .is_some_and(|text| text.trim().eq_ignore_ascii_case(word));
        if none { None } else { self.text(key, parse) }
    }

    /// The value of `key` parsed; a bad one is noted and counts as not given.
    pub(super) fn text<T>(&mut self, key: Key, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let (value, origin) = self.value(key)?;
        let parsed = value.to_str().and_then(|text| parse(text.trim()));
        if parsed.is_none() {
            let value: String = value.to_string_lossy().chars().take(200).collect();
            self.problems.push(Problem::Value {
                origin,
                value,
                accepts: key.accepts.to_owned(),
            });
        }
        parsed
    }

    /// The value of `key` from the first source that has it.
    pub(super) fn value(&self, key: Key) -> Option<(OsString, Origin)> {
        let flag = self
            .overrides
            .values
            .iter()
            .rev()
            .find(|(_, name, _)| name == key.name);
        if let Some((flag, _, value)) = flag {
            return Some((value.clone(), Origin::Flag(flag.clone())));
        }
        if let Some(value) = self.host.raw(key.variable) {
            return Some((value.to_owned(), Origin::Variable(key.variable)));
        }
        let (value, origin) = self.file.value(key.name)?;
        Some((value.into(), origin))
    }
}

fn check_flags(overrides: &Overrides, problems: &mut Vec<Problem>) {
    for (flag, key, _) in &overrides.values {
        if !KEYS.iter().any(|known| known.name == key) {
            let meant = parse::closest(key, KEYS.iter().map(|known| known.name)).map(str::to_owned);
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
        .find(|(_, key, _)| key == keys::STATE_DIR.name);
    let state = state_flag
        .map(|(.., value)| value.clone())
        .or_else(|| host.raw(keys::STATE_DIR.variable).map(OsString::from))
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
