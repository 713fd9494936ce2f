//! What an item of the table of settings is made of.

use super::kinds::{Kind, NixType};

/// One setting.
pub(super) struct Setting<K> {
    /// As in `bridge.yaml` and `--set`.
    pub(super) name: &'static str,
    /// The environment variable.
    pub(super) variable: &'static str,
    /// What it means.
    pub(super) about: &'static str,
    pub(super) accepts: K,
    pub(super) default: Default,
}

/// What holds where nobody says otherwise.
#[derive(Clone, Copy)]
pub(super) enum Default {
    /// A value, written as users would write it.
    Value(&'static str),
    /// No value; what happens instead, in words.
    Unset(&'static str),
}

impl<K: Kind> Setting<K> {
    /// The default, where it is a value.
    pub(super) fn default_value(&self) -> Option<K::Value> {
        match self.default {
            Default::Value(text) => self.accepts.parse(text),
            Default::Unset(_) => None,
        }
    }
}

/// A setting of any kind, for whatever lists them all.
pub(super) trait Described: Sync {
    fn name(&self) -> &'static str;
    fn variable(&self) -> &'static str;
    fn about(&self) -> &'static str;
    fn default(&self) -> &'static str;
    /// Whether the default is a value that the setting itself accepts, or only words.
    #[cfg(test)]
    fn has_valid_default(&self) -> bool;
    fn accepts(&self) -> String;
    fn nix_type(&self) -> NixType;
}

impl<K: Kind> Described for Setting<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variable(&self) -> &'static str {
        self.variable
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn default(&self) -> &'static str {
        match self.default {
            Default::Value(text) | Default::Unset(text) => text,
        }
    }

    #[cfg(test)]
    fn has_valid_default(&self) -> bool {
        matches!(self.default, Default::Unset(_)) || self.default_value().is_some()
    }

    fn accepts(&self) -> String {
        self.accepts.accepts()
    }

    fn nix_type(&self) -> NixType {
        self.accepts.nix_type()
    }
}
