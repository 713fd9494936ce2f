//! Kinds of settings. Each kind holds its bounds once, and from them come the parser, the words
//! that tell people what is accepted, and the type that the Nix modules give the option.

mod quantity;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::Serialize;

use super::parse;
use super::{EngineKind, Limit, Project};
pub(super) use quantity::{Count, Cpus, Size, Time, TimeLimit};

/// What a setting accepts.
pub(super) trait Kind: Sync {
    /// The parsed value.
    type Value;

    /// Parses a trimmed text; `None` where it is not accepted.
    fn parse(&self, text: &str) -> Option<Self::Value>;

    /// What is accepted, as the end of "use ...".
    fn accepts(&self) -> String;

    /// The option type of the Nix modules: never looser than [`Self::parse`].
    fn nix_type(&self) -> NixType;
}

/// An option type that `nix/settings.nix` knows how to build.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum NixType {
    /// A whole number.
    Integer {
        /// The smallest.
        from: u64,
        /// The largest.
        to: u64,
    },
    /// A number above 0.
    Number {
        /// The largest.
        to: f64,
        /// What may stand instead of a number.
        word: &'static str,
    },
    /// A size in bytes, or a text such as `512m`.
    Size {
        /// Bytes.
        from: u64,
        /// Bytes.
        to: u64,
    },
    /// A time in seconds, or a text such as `500ms`.
    Time {
        /// Milliseconds.
        from: u64,
        /// Milliseconds; none: any.
        to: Option<u64>,
        /// Parts of seconds are refused.
        whole_seconds: bool,
    },
    /// One of these words.
    Choice {
        /// In lower case.
        words: Vec<&'static str>,
    },
    /// A list of these words.
    List {
        /// In lower case.
        words: Vec<&'static str>,
    },
    /// True or false.
    Switch,
    /// An absolute path.
    Path,
    /// True, false or an absolute path.
    SwitchOrPath,
    /// A text that matches a POSIX extended regular expression as a whole.
    Text {
        /// As `builtins.match` takes it.
        pattern: &'static str,
    },
    /// `uid` or `uid:gid`, not 0.
    UserAndGroup,
    /// A loopback address with a port.
    LoopbackAddress {
        /// What may stand instead of an address.
        word: &'static str,
    },
}

/// One of several words.
pub(super) struct Choice<T: 'static> {
    pub(super) words: &'static [(&'static str, T)],
    /// Accepted as well, and not advertised.
    pub(super) synonyms: &'static [(&'static str, T)],
}

impl<T: Copy + Sync> Kind for Choice<T> {
    type Value = T;

    fn parse(&self, text: &str) -> Option<T> {
        let mut known = self.words.iter().chain(self.synonyms);
        let found = known.find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|(_, value)| *value)
    }

    fn accepts(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|(word, _)| *word).collect();
        match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.concat(),
        }
    }

    fn nix_type(&self) -> NixType {
        NixType::Choice {
            words: self.words.iter().map(|(word, _)| *word).collect(),
        }
    }
}

/// On or off.
pub(super) struct Switch;

impl Kind for Switch {
    type Value = bool;

    fn parse(&self, text: &str) -> Option<bool> {
        parse::switch(text)
    }

    fn accepts(&self) -> String {
        "on or off".to_owned()
    }

    fn nix_type(&self) -> NixType {
        NixType::Switch
    }
}

/// Limits by name.
pub(super) struct LimitNames;

impl Kind for LimitNames {
    type Value = BTreeSet<Limit>;

    fn parse(&self, text: &str) -> Option<BTreeSet<Limit>> {
        parse::limits(text)
    }

    fn accepts(&self) -> String {
        "a list of memory, pids and cpus, or none".to_owned()
    }

    fn nix_type(&self) -> NixType {
        NixType::List {
            words: Limit::ALL.map(Limit::name).to_vec(),
        }
    }
}

/// Where to listen, or `none`.
pub(super) struct LoopbackAddress;

impl Kind for LoopbackAddress {
    type Value = Option<SocketAddr>;

    fn parse(&self, text: &str) -> Option<Option<SocketAddr>> {
        if text.eq_ignore_ascii_case(parse::NONE) {
            return Some(None);
        }
        parse::loopback(text).map(Some)
    }

    fn accepts(&self) -> String {
        "a loopback address and a port such as 127.0.0.1:8722, or none".to_owned()
    }

    fn nix_type(&self) -> NixType {
        NixType::LoopbackAddress { word: parse::NONE }
    }
}

/// User and group in the container.
pub(super) struct UserAndGroup;

impl Kind for UserAndGroup {
    type Value = (u32, u32);

    fn parse(&self, text: &str) -> Option<(u32, u32)> {
        parse::user(text)
    }

    fn accepts(&self) -> String {
        "uid or uid:gid, numeric and not 0".to_owned()
    }

    fn nix_type(&self) -> NixType {
        NixType::UserAndGroup
    }
}

/// A text with a form of its own.
pub(super) struct Text {
    pub(super) parse: fn(&str) -> bool,
    pub(super) accepts: &'static str,
    /// For Nix: nothing that matches is refused by `parse`.
    pub(super) pattern: &'static str,
}

impl Kind for Text {
    type Value = String;

    fn parse(&self, text: &str) -> Option<String> {
        (self.parse)(text).then(|| text.to_owned())
    }

    fn accepts(&self) -> String {
        self.accepts.to_owned()
    }

    fn nix_type(&self) -> NixType {
        NixType::Text {
            pattern: self.pattern,
        }
    }
}

/// A file or a folder: any path is accepted here, and whoever opens it says what is wrong with it.
pub(super) struct Path(pub(super) &'static str);

impl Kind for Path {
    type Value = ();

    fn parse(&self, _: &str) -> Option<()> {
        Some(())
    }

    fn accepts(&self) -> String {
        self.0.to_owned()
    }

    fn nix_type(&self) -> NixType {
        NixType::Path
    }
}

/// A switch, or else a folder.
pub(super) struct ProjectChoice;

impl Kind for ProjectChoice {
    type Value = Project;

    fn parse(&self, text: &str) -> Option<Project> {
        Some(match parse::switch(text) {
            Some(true) => Project::Here,
            Some(false) => Project::Shared,
            None => Project::Folder(text.into()),
        })
    }

    fn accepts(&self) -> String {
        "on, off or a folder".to_owned()
    }

    fn nix_type(&self) -> NixType {
        NixType::SwitchOrPath
    }
}

/// The engines by name; `auto` is either.
pub(super) const ENGINES: Choice<Option<EngineKind>> = Choice {
    words: &[
        ("podman", Some(EngineKind::Podman)),
        ("docker", Some(EngineKind::Docker)),
        ("auto", None),
    ],
    synonyms: &[],
};

fn examples(such_as: &str) -> String {
    if such_as.is_empty() {
        String::new()
    } else {
        format!(", such as {such_as}")
    }
}
