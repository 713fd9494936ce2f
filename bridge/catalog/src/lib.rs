//! The catalog: every MCP server that some client on this machine knows, in whatever dialect it is written.
//!
//! Promises: a bad entry costs only itself and a bad file only itself, each reported with its place; the first usable
//! definition of a name wins; a loaded catalog never changes (a change of files makes a new one); no configured value
//! is ever printed. Tools become known through `upstream`; how to name, describe and find them is decided here.
//!
//! What a server inherits is `upstream`'s business: a short list of variables, and on top of it the `env` that a
//! [`Definition`] carries. Servers of editor extensions and of client plugins are out of scope.

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

/// All servers as they were defined at one moment.
#[derive(Debug)]
pub struct Catalog {
    search_paths: Arc<SearchPaths>,
    entries: BTreeMap<ServerName, CatalogEntry>,
    files: Vec<Considered>,
    problems: Vec<Problem>,
    watched: Vec<(PathBuf, Option<read::Fingerprint>)>,
}

/// A name that is defined somewhere.
#[derive(Debug, Clone)]
pub struct CatalogEntry {
    /// As written.
    pub name: ServerName,
    /// Its name in Python.
    pub alias: String,
    /// What its definition says about it.
    pub description: Option<String>,
    /// The definition that decides.
    pub source: Source,
    /// What came of it.
    pub outcome: Outcome,
    /// Definitions of the same name that do not count.
    pub passed_over: Vec<Source>,
}

/// What came of a definition.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It can be started.
    Ready(Arc<Definition>),
    /// It is switched off in its file.
    Disabled,
    /// It cannot be used.
    Broken(Reason),
}

/// A file or folder that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// Whose it is.
    pub client: &'static str,
    /// Where.
    pub path: PathBuf,
    /// What came of it.
    pub state: FileState,
}

/// What came of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// There is none.
    Absent,
    /// It was read and holds so many definitions.
    Read {
        /// Definitions, usable or not.
        servers: usize,
    },
    /// It is there and was not read, for this reason.
    Ignored(&'static str),
    /// It could not be used.
    Failed(Reason),
}

/// Why a server cannot be had by the name it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nobody defines it.
    #[error("no server {name:?}; known: {}{}", listed(.known), suggested(.closest.as_deref()))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
        /// What was most likely meant.
        closest: Option<String>,
    },
    /// It is switched off.
    #[error("server {name:?} is disabled in {place}")]
    Disabled {
        /// Its name.
        name: String,
        /// File, line and column.
        place: String,
    },
    /// Its definition cannot be used.
    #[error("server {name:?} cannot be used: {place}: {reason}")]
    Broken {
        /// Its name.
        name: String,
        /// File, line and column.
        place: String,
        /// What is wrong.
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

    /// Every name that is defined, by name.
    pub fn entries(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.values()
    }

    /// Every server that can be started, by name.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.entries
            .values()
            .filter_map(|known| match &known.outcome {
                Outcome::Ready(definition) => Some(definition),
                _ => None,
            })
    }

    /// A name or, where no server is called that, an alias.
    pub fn get(&self, name: &str) -> Option<&CatalogEntry> {
        self.entries
            .get(name)
            .or_else(|| self.entries.values().find(|known| known.alias == name))
    }

    /// The server called that, or why there is none.
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

    /// Everything that is wrong, in order of precedence.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Where the definitions were looked for.
    pub fn search_paths(&self) -> &SearchPaths {
        &self.search_paths
    }

    /// Every configured value that must not be shown, of every server.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.definitions()
            .flat_map(|definition| definition.secrets())
    }

    /// `~/.cursor/mcp.json:14:9`
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
