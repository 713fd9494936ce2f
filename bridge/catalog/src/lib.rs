//! The catalog: every MCP server that some client on this machine knows, in whatever dialect it is written.
//!
//! Entry points: [`Catalog::load`] reads every file of the [`SearchPaths`]; [`Watcher`] hands out the current catalog;
//! [`Catalog::definition`] is a server that can be started, or the reason why there is none.
//!
//! Invariants: a bad entry or file affects nothing but itself and is reported with its place; the first usable
//! definition of a name wins; a loaded catalog never changes (changed files make a new one); no configured value is
//! ever printed.
//!
//! This crate starts nothing and connects to nothing. Which variables a server inherits is decided by
//! `bridge-upstream`, on top of the `env` that a [`Definition`] carries; what tools a server has is `bridge-tools`'
//! subject. Servers of editor extensions and of client plugins are out of scope.

mod alias;
mod candidates;
mod command;
mod definition;
pub mod depth;
mod dialect;
mod document;
mod entry;
mod env_file;
mod expand;
mod fields;
mod identity;
mod load;
mod problem;
mod read;
pub mod register;
mod search_paths;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::SecretString;

pub use self::alias::{Of, alias, aliases};
pub use self::definition::{
    Definition, SHORTEST_SECRET, ServerName, Source, ToolFilter, Transport,
};
pub use self::problem::{Problem, Reason, Severity};
pub use self::search_paths::{Platform, SearchPaths};
pub use self::watch::Watcher;

/// All servers, as their files defined them when the catalog was loaded.
#[derive(Debug)]
pub struct Catalog {
    search_paths: Arc<SearchPaths>,
    entries: BTreeMap<ServerName, CatalogEntry>,
    files: Vec<Considered>,
    problems: Vec<Problem>,
    watched: Vec<(PathBuf, Option<read::Fingerprint>)>,
}

/// A server name with the definition that counts for it.
#[derive(Debug, Clone)]
pub struct CatalogEntry {
    /// The name as written in the file.
    pub name: ServerName,
    /// The name in Python.
    pub alias: String,
    /// The description in the definition.
    pub description: Option<String>,
    /// Where the definition that counts is.
    pub source: Source,
    /// Whether the server can be started.
    pub outcome: Outcome,
    /// Where other definitions of the same name are; they do not count.
    pub passed_over: Vec<Source>,
}

/// Whether a definition can be used.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It can be started.
    Ready(Arc<Definition>),
    /// It is switched off in its file.
    Disabled,
    /// It cannot be used.
    Broken(Reason),
}

/// A file or folder that was considered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// The client that the file belongs to.
    pub client: &'static str,
    /// The path of the file or folder.
    pub path: PathBuf,
    /// What was found there.
    pub state: FileState,
}

/// What was found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// Nothing is there.
    Absent,
    /// The file was read.
    Read {
        /// Number of definitions in it, usable or not.
        servers: usize,
    },
    /// The file exists and was not read, for this reason.
    Ignored(&'static str),
    /// The file could not be used.
    Failed(Reason),
}

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No file defines the name.
    #[error("no server {name:?}; known: {}{}", listed(.known), suggested(.closest.as_deref()))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that can be used.
        known: Vec<String>,
        /// The name that was most likely meant.
        closest: Option<String>,
    },
    /// The definition is switched off.
    #[error("server {name:?} is disabled in {place}")]
    Disabled {
        /// The server.
        name: String,
        /// File, line and column.
        place: String,
    },
    /// The definition cannot be used.
    #[error("server {name:?} cannot be used: {place}: {reason}")]
    Broken {
        /// The server.
        name: String,
        /// File, line and column.
        place: String,
        /// What is wrong with it.
        reason: Reason,
    },
}

fn listed(known: &[String]) -> String {
    const MOST: usize = 30;
    match known {
        [] => "none".to_owned(),
        _ if known.len() > MOST => format!(
            "{} and {} more",
            known[..MOST].join(", "),
            known.len() - MOST
        ),
        _ => known.join(", "),
    }
}

fn suggested(closest: Option<&str>) -> String {
    closest
        .map(|name| format!(" (did you mean {name}?)"))
        .unwrap_or_default()
}

impl Catalog {
    /// Reads all files of the search paths. Never fails: what cannot be read is in [`Catalog::files`] and [`Catalog::problems`].
    pub fn load(search_paths: impl Into<Arc<SearchPaths>>) -> Self {
        load::load(search_paths.into())
    }

    /// Every name that is defined, in alphabetical order.
    pub fn entries(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.values()
    }

    /// Every server that can be started, in alphabetical order.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.entries
            .values()
            .filter_map(|known| match &known.outcome {
                Outcome::Ready(definition) => Some(definition),
                _ => None,
            })
    }

    /// The entry with this name or, failing that, with this alias.
    pub fn get(&self, name: &str) -> Option<&CatalogEntry> {
        self.entries
            .get(name)
            .or_else(|| self.entries.values().find(|known| known.alias == name))
    }

    /// The definition of a server, or why it cannot be used.
    pub fn definition(&self, name: &str) -> Result<&Arc<Definition>, Error> {
        let Some(known) = self.get(name) else {
            let names = || self.entries.keys().map(|name| name.0.as_str());
            return Err(Error::Unknown {
                name: name.chars().take(200).collect(),
                known: self
                    .definitions()
                    .map(|definition| definition.name.0.clone())
                    .collect(),
                closest: bridge_common::similar::closest(name, names()).map(str::to_owned),
            });
        };
        let (name, place) = (known.name.0.clone(), self.place(&known.source));
        match &known.outcome {
            Outcome::Ready(definition) => Ok(definition),
            Outcome::Disabled => Err(Error::Disabled { name, place }),
            Outcome::Broken(reason) => Err(Error::Broken {
                name,
                place,
                reason: reason.clone(),
            }),
        }
    }

    /// Every file and folder that was considered, in order of precedence.
    pub fn files(&self) -> &[Considered] {
        &self.files
    }

    /// All problems that were found, in order of precedence.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The paths that the definitions were read from.
    pub fn search_paths(&self) -> &SearchPaths {
        &self.search_paths
    }

    /// Every configured value that must not be shown, of every server.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.definitions()
            .flat_map(|definition| definition.secrets())
    }

    /// A place for people: `~/.cursor/mcp.json:14:9`.
    pub fn place(&self, source: &Source) -> String {
        format!(
            "{}:{}:{}",
            self.search_paths.shown(&source.path),
            source.line,
            source.column
        )
    }

    /// Whether a file changed since this was loaded.
    pub fn is_stale(&self) -> bool {
        self.watched.iter().any(|(path, before)| {
            read::Fingerprint::may_differ(*before, read::Fingerprint::take(path))
        })
    }
}
