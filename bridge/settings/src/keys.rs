//! The table of settings as data, for whoever shows it: help, the reference page, the Nix modules.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Serialize;

use super::kinds::NixType;
use super::table;

/// One setting, described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Key {
    /// As in `bridge.yaml` and `--set`.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// What is accepted, in words.
    pub accepts: String,
    /// The default, as a value or in words.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
    /// The type of the option in the Nix modules.
    pub nix: NixType,
}

/// All settings, in the order of the documentation.
pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let keys = table::ALL.iter().map(|setting| Key {
        name: setting.name(),
        variable: setting.variable(),
        accepts: setting.accepts(),
        default: setting.default(),
        about: setting.about(),
        nix: setting.nix_type(),
    });
    keys.collect()
});

/// The setting called `name`.
pub fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The table as text for a terminal, as in `--help`.
pub fn help() -> String {
    let mut text = String::from("Settings (variable, key of bridge.yaml and of --set, default):\n");
    for key in KEYS.iter() {
        let _ = write!(
            text,
            "  {} ({}, {})\n      {}; {}\n",
            key.variable, key.name, key.default, key.about, key.accepts
        );
    }
    text
}

/// What a flag for the setting called `name` says about itself.
pub fn flag_help(name: &str) -> String {
    key(name).map_or_else(String::new, |key| {
        let mut letters = key.about.chars();
        let first = letters.next().map(char::to_uppercase);
        let about = first.into_iter().flatten().chain(letters);
        format!("{}: {}", about.collect::<String>(), key.accepts)
    })
}

/// `keys.json`: the table for the options of the Nix modules.
pub fn nix_keys() -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&*KEYS)? + "\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn committed_keys_for_nix_are_those_of_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/keys.json");
        let table = nix_keys().expect("plain data");
        let committed = std::fs::read_to_string(&path).expect("committed");
        assert!(
            committed == table,
            "bridge/settings/src/keys.json differs from the table of settings: run make reference and commit it"
        );
    }

    #[test]
    fn names_and_variables_are_unique() {
        let names: BTreeSet<_> = KEYS.iter().map(|key| key.name).collect();
        let variables: BTreeSet<_> = KEYS.iter().map(|key| key.variable).collect();
        assert_eq!((names.len(), variables.len()), (KEYS.len(), KEYS.len()));
    }
}
