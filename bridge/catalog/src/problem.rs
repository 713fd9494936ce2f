//! Problems of a file or an entry: where, how bad, and what to do.
//!
//! A reason names fields, variables and files, never a configured value.

use std::path::PathBuf;

use super::definition::ServerName;

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether the entry (or the file) cannot be used.
    pub severity: Severity,
    /// The entry; `None` if the problem concerns the whole file.
    pub server: Option<ServerName>,
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 if the problem concerns the whole file.
    pub line: usize,
    /// The column in characters, from 1; 0 if the problem concerns the whole file.
    pub column: usize,
    /// What is wrong.
    pub reason: Reason,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        if self.line > 0 {
            write!(formatter, ":{}:{}", self.line, self.column)?;
        }
        write!(formatter, ": {}", self.reason)
    }
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Everything can be used.
    Warning,
    /// The entry or file cannot be used.
    Error,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants mean")]
pub enum Reason {
    // Files
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("is a {0}, not a file")]
    NotAFile(&'static str),
    #[error("is larger than {0} MiB")]
    TooLarge(u64),
    #[error("is not UTF-8 text")]
    NotText,
    #[error("{0}")]
    Syntax(String),
    #[error("is nested deeper than {0} levels")]
    TooDeep(usize),
    #[error("holds more than {0} servers; the rest is not read")]
    TooManyServers(usize),
    #[error("holds more than {0} definition files; the rest is not read")]
    TooManyFiles(usize),
    // Entries
    #[error("{what} must be {expected}, not {found}")]
    WrongType {
        what: String,
        expected: &'static str,
        found: &'static str,
    },
    #[error("{0:?} occurs twice; the last one counts")]
    DuplicateKey(String),
    #[error("a server needs a name")]
    NoName,
    #[error("has a name of more than {0} bytes")]
    LongName(usize),
    #[error("names neither a command nor a url")]
    NoTransport,
    #[error(
        "has no command of its own: the editor extension brings it; add \"command\" and \"args\" to use it here"
    )]
    ExtensionServer,
    #[error("has both a command and a url; the {0} is used")]
    TwoTransports(&'static str),
    #[error("type {0:?} needs a {1}")]
    TypeNeeds(String, &'static str),
    #[error("unknown type {0:?}; known: stdio, http")]
    UnknownType(String),
    #[error(
        "the old HTTP+SSE transport (type \"sse\") is not supported; if the server has a streamable HTTP address, often \
         the same host with /mcp, use it with \"type\": \"http\""
    )]
    LegacySse,
    #[error(
        "WebSocket servers are not supported; use a streamable HTTP address with \"type\": \"http\""
    )]
    WebSocket,
    #[error(
        "\"url\" has unsupported scheme {0}://; use command/args, or an http:// or https:// address"
    )]
    UnsupportedScheme(String),
    #[error("\"url\" is not an http:// or https:// address")]
    NotAnAddress,
    #[error("unknown key {key:?} is ignored{}", suggestion(.closest.as_deref()))]
    UnknownKey {
        key: String,
        closest: Option<String>,
    },
    #[error("{0:?} is not supported by the bridge and ignored")]
    UnsupportedKey(String),
    #[error("{0} contains a NUL character")]
    Nul(String),
    #[error("invalid name of an environment variable: {0:?}")]
    BadVariableName(String),
    #[error("invalid name of a header: {0:?}")]
    BadHeaderName(String),
    #[error("the value of header {0:?} contains a line break or another control character")]
    BadHeaderValue(String),
    #[error("{0} is not a time that can be waited for")]
    BadTimeout(String),
    #[error("\"enabled\" and \"disabled\" contradict each other; it counts as disabled")]
    EnabledAndDisabled,
    // Command lines
    #[error(
        "the text of \"command\" is not the name of a program; it is read as a command line. Write: {0}"
    )]
    CommandLine(String),
    #[error("\"args\" is one text; it is read as a command line. Write: {0}")]
    ArgumentLine(String),
    #[error("{0} has a quote that is not closed")]
    OpenQuote(&'static str),
    #[error("\"command\" is empty")]
    EmptyCommand,
    // Variables
    #[error(
        "variable {variable} is not set ({field}); set it before the bridge starts, or write ${{{variable}:-default}}"
    )]
    UnsetVariable { variable: String, field: String },
    #[error("a \"${{\" is not closed ({0}); write \"$${{\" for the characters themselves")]
    OpenVariable(String),
    #[error("{0}: variables are nested too deeply, or grow too long")]
    VariableTooDeep(String),
    #[error(
        "needs the input {0:?}, which only VS Code can ask for; set an environment variable and write ${{env:NAME}} instead"
    )]
    Input(String),
    #[error(
        "${{{0}:...}} is known to VS Code only ({1}); use an environment variable, ${{env:NAME}}"
    )]
    EditorVariable(String, String),
    #[error(
        "${{{0}}} in {1} is not expanded: the bridge does not know this form and passes it on as it is"
    )]
    UnknownVariable(String, String),
    #[error(
        "unknown form ${{{0}}} in {1}: use ${{NAME}}, ${{NAME:-default}} or ${{env:NAME}}, or write \"$${{\" for the \
         characters themselves"
    )]
    UnknownForm(String, String),
    #[error("the file that {0} names cannot be read: {1}")]
    VariableFile(String, String),
    // Environment files
    #[error("the environment file {0} {1}")]
    EnvFile(String, String),
    #[error("line {1} of the environment file {0} is not NAME=value and is ignored")]
    EnvFileLine(String, usize),
    // Recursion
    #[error(
        "would start this bridge again ({0}); set MCP_BRIDGE_ALLOW_SELF_SERVER=1 if that is meant"
    )]
    SelfReference(String),
}

fn suggestion(closest: Option<&str>) -> String {
    closest
        .map(|key| format!(" (did you mean {key:?}?)"))
        .unwrap_or_default()
}
