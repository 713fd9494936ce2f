//! What was wrong with the settings: all of it at once, each with its source.

use std::fmt;
use std::path::{Path, PathBuf};

/// Settings that could not be read. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[error("{}", list(.problems))]
pub struct Error {
    /// Every problem found.
    pub problems: Vec<Problem>,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line, as written.
    Flag(String),
    /// An environment variable.
    Variable(&'static str),
    /// A key of the settings file, and its line where it was found.
    File {
        /// The key.
        key: String,
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: Option<usize>,
    },
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A value that is not accepted.
    Value {
        /// Where it came from.
        origin: Origin,
        /// The value, cut where long.
        value: String,
        /// What is accepted instead.
        accepts: String,
    },
    /// A key that does not exist.
    Unknown {
        /// Where it was written.
        origin: Origin,
        /// What may have been meant.
        meant: Option<String>,
    },
    /// The file as a whole.
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: Option<usize>,
        /// What is wrong with it, and what is accepted.
        reason: String,
    },
}

impl Problem {
    /// The setting that is wrong, as it was written; none where the file as a whole is.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Value { origin, .. } | Self::Unknown { origin, .. } => Some(origin.name()),
            Self::File { .. } => None,
        }
    }

    /// The line in the settings file, counted from 1.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Value { origin, .. } | Self::Unknown { origin, .. } => origin.line(),
            Self::File { line, .. } => *line,
        }
    }

    /// What is wrong and what to do, without the place.
    pub fn message(&self) -> String {
        match self {
            Self::Value {
                origin,
                value,
                accepts,
            } => format!("invalid {} {value:?}: use {accepts}", origin.name()),
            Self::Unknown {
                origin,
                meant: Some(meant),
            } => format!(
                "unknown setting {:?}: did you mean {meant:?}?",
                origin.name()
            ),
            Self::Unknown {
                origin,
                meant: None,
            } => format!("unknown setting {:?}", origin.name()),
            Self::File { reason, .. } => reason.clone(),
        }
    }
}

impl Origin {
    fn name(&self) -> &str {
        match self {
            Self::Flag(flag) => flag,
            Self::Variable(name) => name,
            Self::File { key, .. } => key,
        }
    }

    fn line(&self) -> Option<usize> {
        match self {
            Self::Flag(_) | Self::Variable(_) => None,
            Self::File { line, .. } => *line,
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Flag(_) | Self::Variable(_) => None,
            Self::File { path, .. } => Some(path),
        }
    }
}

fn list(problems: &[Problem]) -> String {
    match problems {
        [only] => only.to_string(),
        many => {
            let lines = many.iter().map(|problem| format!("\n  {problem}"));
            format!(
                "{} settings are wrong:{}",
                many.len(),
                lines.collect::<String>()
            )
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self {
            Self::Value { origin, .. } | Self::Unknown { origin, .. } => origin.path(),
            Self::File { path, .. } => Some(path.as_path()),
        };
        if let Some(path) = path {
            write!(formatter, "{}:", path.display())?;
            if let Some(line) = self.line() {
                write!(formatter, "{line}:")?;
            }
            formatter.write_str(" ")?;
        }
        formatter.write_str(&self.message())
    }
}
