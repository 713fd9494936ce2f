//! One MCP server as the bridge will run it: normalised, expanded, checked.
//!
//! Nothing here prints a configured value: `Debug` shows what kind of server it is and where it was defined.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use super::depth;

/// A server's name as written in its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(pub String);

impl fmt::Display for ServerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ServerName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// A server that can be started or reached.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The name as written in the file.
    pub name: ServerName,
    /// The name in Python; no two servers of a catalog share one.
    pub alias: String,
    /// How the server is started or reached.
    pub transport: Transport,
    /// The description in the definition, or else in the file.
    pub description: Option<String>,
    /// Where the definition is.
    pub source: Source,
    /// The time limit of a start, if the definition has one.
    pub start_timeout: Option<Duration>,
    /// The time limit of a call, if the definition has one.
    pub call_timeout: Option<Duration>,
    /// Which tools are offered.
    pub tools: ToolFilter,
    /// A hash of everything that decides what is run; names the cached tool list.
    pub hash: String,
    /// Values that must never be shown: see [`Definition::secrets`].
    pub(super) secrets: Vec<SecretString>,
}

impl Definition {
    /// Values that answers, logs and records must not show: of the environment and headers, of the query and
    /// credentials of the address, and of variables that were put into arguments. Only those of
    /// [`SHORTEST_SECRET`] bytes or more; shorter ones would blank out ordinary text.
    pub fn secrets(&self) -> &[SecretString] {
        &self.secrets
    }
}

/// Shorter values are not treated as secrets.
pub const SHORTEST_SECRET: usize = 8;

/// How a server is reached. Every value is expanded already.
#[derive(Clone)]
pub enum Transport {
    /// A child process that speaks on its standard input and output.
    Stdio {
        /// The program: a path, or a name to be found on `PATH`.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// Variables on top of the few inherited ones (`bridge-upstream` owns that list).
        env: BTreeMap<String, SecretString>,
        /// The working directory, an absolute path.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The address, `http://` or `https://`.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, SecretString>,
    },
}

impl Transport {
    /// `stdio` or `http`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
        }
    }

    /// What may be shown: the program's name, or scheme and host. Paths of addresses and arguments often carry secrets.
    pub fn shown(&self) -> String {
        match self {
            Self::Stdio { command, .. } => command.clone(),
            Self::Http { url, .. } => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let host = authority.rsplit('@').next().unwrap_or_default();
                format!("{scheme}://{host}")
            }
        }
    }

    /// A hash of everything that decides what is run.
    pub(super) fn hash(&self) -> String {
        let mut digest = Sha256::new();
        // Every part is preceded by its length, so that different definitions never hash the same text.
        let mut add = |part: &str| {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        };
        add(self.kind());
        match self {
            Self::Stdio {
                command,
                args,
                env,
                cwd,
            } => {
                add(command);
                add(&args.len().to_string());
                for argument in args {
                    add(argument);
                }
                for (name, value) in env.iter().filter(|(name, _)| *name != depth::VARIABLE) {
                    add(name);
                    add(value.expose_secret());
                }
                if let Some(cwd) = cwd {
                    add("cwd");
                    add(&cwd.to_string_lossy());
                }
            }
            Self::Http { url, headers } => {
                add(url);
                for (name, value) in headers {
                    add(name);
                    add(value.expose_secret());
                }
            }
        }
        hex::encode(&digest.finalize()[..16])
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { args, env, cwd, .. } => formatter
                .debug_struct("Stdio")
                .field("command", &self.shown())
                .field("args", &args.len())
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish(),
            Self::Http { headers, .. } => formatter
                .debug_struct("Http")
                .field("url", &self.shown())
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .finish(),
        }
    }
}

/// Where a definition is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The client whose configuration it is.
    pub client: &'static str,
    /// The configuration file.
    pub path: PathBuf,
    /// The line of the definition's name, from 1.
    pub line: usize,
    /// The column of the definition's name, in characters, from 1.
    pub column: usize,
}

/// `includeTools`, `excludeTools` and their other spellings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// If given, only these tools are offered.
    pub only: Option<BTreeSet<String>>,
    /// These tools are not offered.
    pub except: BTreeSet<String>,
}

impl ToolFilter {
    /// Whether a tool of this name is offered.
    pub fn lets_through(&self, tool: &str) -> bool {
        !self.except.contains(tool) && self.only.as_ref().is_none_or(|only| only.contains(tool))
    }
}
