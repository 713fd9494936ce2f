//! Kinds of settings that are numbers, sizes and times, each within bounds.

use std::marker::PhantomData;
use std::time::Duration;

use super::{Kind, NixType, examples};
use crate::parse::{self, parse_duration, parse_size};

/// A whole number within bounds.
pub(crate) struct Count<T> {
    from: u64,
    to: u64,
    target: PhantomData<fn() -> T>,
}

impl<T> Count<T> {
    pub(crate) const fn between(from: u64, to: u64) -> Self {
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
pub(crate) struct Size {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Examples, where they help.
    pub(crate) such_as: &'static str,
}

impl Size {
    /// A bound that no machine reaches, and that need not be told.
    pub(crate) const ENDLESS: u64 = 1 << 50;
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
pub(crate) struct TimeLimit {
    /// The largest, in words.
    pub(crate) up_to: &'static str,
    pub(crate) such_as: &'static str,
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
pub(crate) struct Time {
    pub(crate) to: Option<Duration>,
    pub(crate) such_as: &'static str,
    /// Zero means that it never ends.
    pub(crate) zero_is_never: bool,
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

/// A number of CPUs, or `none`.
pub(crate) struct Cpus;

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

fn within<T: PartialOrd + Copy>(value: T, from: T, to: T) -> Option<T> {
    (value >= from && value <= to).then_some(value)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
