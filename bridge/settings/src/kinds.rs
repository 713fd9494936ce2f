//! Kinds of settings. Each kind holds its bounds once, and from them come the parser, the words
//! that tell people what is accepted, and the type that the Nix modules give the option.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::parse::{self, parse_duration, parse_size};
use super::{EngineKind, Limit, Project};

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

/// A whole number within bounds.
pub(super) struct Count<T> {
    from: u64,
    to: u64,
    target: PhantomData<fn() -> T>,
}

impl<T> Count<T> {
    pub(super) const fn between(from: u64, to: u64) -> Self {
        Self {
            from,
            to,
            target: PhantomData,
        }
    }
}

impl<T: TryFrom<u64>> Kind for Count<T> {
    type Value = T;

    fn parse(&self, text: &str) -> Option<T> {
        let number = within(text.parse().ok()?, self.from, self.to)?;
        T::try_from(number).ok()
    }

    fn accepts(&self) -> String {
        match self.from {
            0 => format!("a whole number up to {}", self.to),
            from => format!("a whole number from {from} to {}", self.to),
        }
    }

    fn nix_type(&self) -> NixType {
        NixType::Integer {
            from: self.from,
            to: self.to,
        }
    }
}

/// Bytes.
pub(super) struct Size {
    pub(super) from: u64,
    pub(super) to: u64,
    /// Examples, where they help.
    pub(super) such_as: &'static str,
}

impl Size {
    /// A bound that no machine reaches, and that need not be told.
    pub(super) const ENDLESS: u64 = 1 << 50;
}

impl Kind for Size {
    type Value = u64;

    fn parse(&self, text: &str) -> Option<u64> {
        within(parse_size(text)?, self.from, self.to)
    }

    fn accepts(&self) -> String {
        let bounds = match (self.from, self.to) {
            (from, Self::ENDLESS) => format!("of at least {}", short_size(from)),
            (0, to) => format!("up to {}", short_size(to)),
            (from, to) => format!("from {} to {}", short_size(from), short_size(to)),
        };
        format!("a size {bounds}{}", examples(self.such_as))
    }

    fn nix_type(&self) -> NixType {
        NixType::Size {
            from: self.from,
            to: self.to,
        }
    }
}

/// The time limit of something that runs: whole seconds up to a day.
pub(super) struct TimeLimit {
    /// The largest, in words.
    pub(super) up_to: &'static str,
    pub(super) such_as: &'static str,
}

impl TimeLimit {
    const SHORTEST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(86_400);
}

impl Kind for TimeLimit {
    type Value = Duration;

    fn parse(&self, text: &str) -> Option<Duration> {
        let time = within(parse_duration(text)?, Self::SHORTEST, Self::LONGEST)?;
        (time.subsec_nanos() == 0).then_some(time)
    }

    fn accepts(&self) -> String {
        let Self { up_to, such_as } = self;
        format!("whole seconds from 1 {up_to}{}", examples(such_as))
    }

    fn nix_type(&self) -> NixType {
        NixType::Time {
            from: milliseconds(Self::SHORTEST),
            to: Some(milliseconds(Self::LONGEST)),
            whole_seconds: true,
        }
    }
}

/// A time to wait.
pub(super) struct Time {
    pub(super) to: Option<Duration>,
    pub(super) such_as: &'static str,
    /// Zero means that it never ends.
    pub(super) zero_is_never: bool,
}

impl Kind for Time {
    type Value = Duration;

    fn parse(&self, text: &str) -> Option<Duration> {
        parse_duration(text).filter(|time| self.to.is_none_or(|longest| *time <= longest))
    }

    fn accepts(&self) -> String {
        let bound = self
            .to
            .map(|longest| format!(" up to {}s,", longest.as_secs()));
        let zero = if self.zero_is_never {
            "; 0 for never"
        } else {
            ""
        };
        format!(
            "a time{} such as {}{zero}",
            bound.unwrap_or_default(),
            self.such_as
        )
    }

    fn nix_type(&self) -> NixType {
        NixType::Time {
            from: 0,
            to: self.to.map(milliseconds),
            whole_seconds: false,
        }
    }
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

/// A number of CPUs, or `none`.
pub(super) struct Cpus;

impl Cpus {
    const MOST: f64 = 1024.0;
}

impl Kind for Cpus {
    type Value = Option<f64>;

    fn parse(&self, text: &str) -> Option<Option<f64>> {
        if text.eq_ignore_ascii_case(parse::NONE) {
            return Some(None);
        }
        parse::cpus(text, Self::MOST).map(Some)
    }

    fn accepts(&self) -> String {
        format!(
            "a number above 0 and at most {}, such as 1.5, or none",
            Self::MOST
        )
    }

    fn nix_type(&self) -> NixType {
        NixType::Number {
            to: Self::MOST,
            word: parse::NONE,
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

fn within<T: PartialOrd + Copy>(value: T, from: T, to: T) -> Option<T> {
    (value >= from && value <= to).then_some(value)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn examples(such_as: &str) -> String {
    if such_as.is_empty() {
        String::new()
    } else {
        format!(", such as {such_as}")
    }
}

/// Bytes in the largest unit that divides them, as people write settings: `64m`.
fn short_size(bytes: u64) -> String {
    let units = [(30, "g"), (20, "m"), (10, "k")];
    let unit = units
        .into_iter()
        .find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}
