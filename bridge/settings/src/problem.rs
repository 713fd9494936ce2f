//! What was wrong with the settings: all of it at once, each with its source.

use std::fmt;
use std::path::PathBuf;

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

fn list(problems: &[Problem]) -> String {
    match problems {
        [only] => format!("bad setting: {only}"),
        many => {
            let lines: Vec<String> = many
                .iter()
                .map(|problem| format!("\n  {problem}"))
                .collect();
            format!("{} bad settings:{}", many.len(), lines.concat())
        }
    }
}

/// `path` or `path:line`.
fn place(path: &std::path::Path, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{}:{line}", path.display()),
        None => path.display().to_string(),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value {
                origin,
                value,
                accepts,
            } => match origin {
                Origin::Flag(flag) => write!(formatter, "{flag} is {value:?}; accepted: {accepts}"),
                Origin::Variable(name) => {
                    write!(formatter, "{name} is {value:?}; accepted: {accepts}")
                }
                Origin::File { key, path, line } => {
                    write!(
                        formatter,
                        "{}: {key} is {value:?}; accepted: {accepts}",
                        place(path, *line)
                    )
                }
            },
            Self::Unknown { origin, meant } => {
                match origin {
                    Origin::Flag(flag) => write!(formatter, "{flag}: no such setting")?,
                    Origin::Variable(name) => write!(formatter, "{name}: no such setting")?,
                    Origin::File { key, path, line } => {
                        write!(
                            formatter,
                            "{}: no such setting: {key:?}",
                            place(path, *line)
                        )?;
                    }
                }
                match meant {
                    Some(meant) => write!(formatter, " (did you mean {meant}?)"),
                    None => Ok(()),
                }
            }
            Self::File { path, line, reason } => {
                write!(formatter, "{}: {reason}", place(path, *line))
            }
        }
    }
}
