//! `bridge.yaml`: found, read within bounds, and taken apart into keys with their lines.

use std::path::{Path, PathBuf};

use bridge_common::fs::read_bounded;
use bridge_common::similar::closest;

use super::keys::{KEYS, key};
use super::kinds::NixType;
use super::problem::{Origin, Problem};

/// Far more than every setting spelled out; anything above is some other file.
const MAX_BYTES: u64 = 256 << 10;

/// Unknown settings that are named; a file with more is not one of ours.
const MOST_UNKNOWN: usize = 50;

/// The values of one settings file, as text.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) path: Option<PathBuf>,
    values: Vec<(&'static str, String, Option<usize>)>,
}

impl File {
    /// Reads `path`. What is wrong goes to `problems`; the rest is kept, so that all problems show
    /// at once.
    pub(super) fn read(path: &Path, problems: &mut Vec<Problem>) -> Self {
        let mut file = Self {
            path: Some(path.to_owned()),
            values: Vec::new(),
        };
        let mut problem = |line, reason| {
            problems.push(Problem::File {
                path: path.to_owned(),
                line,
                reason,
            });
        };
        let text = match read(path) {
            Ok(text) => text,
            Err(reason) => {
                problem(None, reason);
                return file;
            }
        };
        // An empty file, or comments alone, sets nothing.
        let document = match serde_yaml::from_str::<Option<serde_yaml::Mapping>>(&text) {
            Ok(document) => document.unwrap_or_default(),
            Err(error) => {
                let line = error.location().map(|location| location.line());
                problem(line, format!("not a YAML mapping of settings: {error}"));
                return file;
            }
        };
        let mut unknown = 0;
        for (name, value) in document {
            let Some(name) = name.as_str() else {
                problems.push(Problem::File {
                    path: path.to_owned(),
                    line: None,
                    reason: format!("the key {name:?} is not a text"),
                });
                continue;
            };
            let line = line_of(&text, name);
            let origin = || Origin::File {
                key: name.to_owned(),
                path: path.to_owned(),
                line,
            };
            let Some(known) = key(name) else {
                unknown += 1;
                if unknown > MOST_UNKNOWN {
                    problems.push(Problem::File {
                        path: path.to_owned(),
                        line: None,
                        reason: format!("more than {MOST_UNKNOWN} unknown settings"),
                    });
                    break;
                }
                let meant = closest(name, KEYS.iter().map(|known| known.name)).map(str::to_owned);
                problems.push(Problem::Unknown {
                    origin: origin(),
                    meant,
                });
                continue;
            };
            let takes_list = matches!(known.nix, NixType::List { .. });
            let value = match &value {
                serde_yaml::Value::Sequence(_) if !takes_list => Err("a list"),
                value => scalar(value),
            };
            match value {
                Ok(Some(value)) => file.values.push((known.name, value, line)),
                Ok(None) => {}
                Err(kind) => problems.push(Problem::Value {
                    origin: origin(),
                    value: kind.to_owned(),
                    accepts: known.accepts.clone(),
                }),
            }
        }
        file
    }

    /// The value of `key` and where it stands.
    pub(super) fn value(&self, key: &str) -> Option<(&str, Origin)> {
        let (_, value, line) = self.values.iter().find(|(name, ..)| *name == key)?;
        let path = self.path.clone().unwrap_or_default();
        Some((
            value,
            Origin::File {
                key: key.to_owned(),
                path,
                line: *line,
            },
        ))
    }
}

fn read(path: &Path) -> Result<String, String> {
    let bytes =
        read_bounded(path, MAX_BYTES).map_err(|error| format!("cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "cannot be read: it is not UTF-8".to_owned())
}

/// A value as text; a list of scalars joined by commas; `None` for null.
fn scalar(value: &serde_yaml::Value) -> Result<Option<String>, &'static str> {
    use serde_yaml::Value;
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(value.to_string())),
        Value::Number(value) => Ok(Some(value.to_string())),
        Value::String(value) => Ok(Some(value.clone())),
        Value::Sequence(items) if items.is_empty() => Ok(Some("none".to_owned())),
        Value::Sequence(items) => {
            let texts: Result<Vec<String>, &'static str> = items
                .iter()
                .map(|item| scalar(item)?.ok_or("a list with nulls"))
                .collect();
            texts.map(|texts| Some(texts.join(",")))
        }
        Value::Mapping(_) => Err("a mapping"),
        Value::Tagged(_) => Err("a tagged value"),
    }
}

/// Settings are one flat mapping, so a key stands at the start of its line, plain or quoted.
fn line_of(text: &str, key: &str) -> Option<usize> {
    text.lines()
        .position(|line| {
            let line = line.trim_start_matches(['"', '\'']);
            line.strip_prefix(key).is_some_and(|rest| {
                rest.trim_start_matches(['"', '\''])
                    .trim_start()
                    .starts_with(':')
            })
        })
        .map(|index| index + 1)
}
