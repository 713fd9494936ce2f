//! What one entry of a client's configuration says about one MCP server, normalised and expanded.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A server's name as its configuration file writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(pub Arc<str>);

impl ServerName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<&str> for ServerName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

/// A configured value that is never printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(String);

impl Secret {
    /// Keeps `value` from being printed.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for the server it is meant for and for the redactor.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// One server, ready to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// As written in the file.
    pub name: ServerName,
    /// The Python identifier it is offered under; unique in the catalog.
    pub alias: String,
    /// How it is reached.
    pub transport: Transport,
    /// The entry's own description, or its file's.
    pub description: Option<String>,
    /// Where it was read.
    pub source: Source,
    /// Time it may take to start, where its entry says so.
    pub start_timeout: Option<Duration>,
    /// Time one call may take without a sign of life, where its entry says so.
    pub call_timeout: Option<Duration>,
    /// Of everything that decides what is run.
    pub hash: String,
}

/// How a server is reached; every variable is expanded already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks over its standard streams.
    Stdio {
        /// Program, by name or path.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables on top of the inherited ones.
        env: BTreeMap<String, Secret>,
        /// Its working directory.
        cwd: Option<PathBuf>,
    },
    /// A streamable HTTP endpoint.
    Http {
        /// Its address.
        url: String,
        /// Headers sent with each request.
        headers: BTreeMap<String, Secret>,
    },
}

/// Where an entry was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The client whose file it is, such as `cursor`.
    pub client: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Line of the entry, from 1.
    pub line: usize,
    /// Column of the entry, from 1.
    pub column: usize,
}
