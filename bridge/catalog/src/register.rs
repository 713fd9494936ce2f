//! Enters the bridge as a server in the clients' own files, and takes it out again.
//!
//! The files are those of [`SearchPaths`]; only the entry's own characters change. Before anything
//! is written the new text is read back: apart from the entry it must say what the old text said. A
//! file that cannot be edited safely is left unchanged, with the reason.

mod clients;
mod file;
mod json;
#[cfg(test)]
mod tests;
mod toml;

use std::path::PathBuf;

use serde_json::{Value, json};

pub(super) use self::clients::{
    CLAUDE_CODE, CLAUDE_DESKTOP, CODEX, CURSOR, GEMINI, OPENCODE, VSCODE, VSCODE_INSIDERS,
    VSCODIUM, WINDSURF, ZED,
};
pub use self::clients::{CLIENTS, Client, Scope, clients_json};
use self::file::FileText;
use super::document::Value as Tree;
use super::document::{self, Node, Syntax};
use super::search_paths::SearchPaths;

/// The program's name: an entry that starts a program of this name is the bridge's own.
const PROGRAM: &str = "mcp-code-bridge";

/// A file of a client in which the bridge may stand.
#[derive(Debug)]
pub struct ClientFile {
    /// Whose it is.
    pub client: &'static Client,
    /// For whom it counts.
    pub scope: Scope,
    /// Where it is, or would be.
    pub path: PathBuf,
    syntax: Syntax,
}

/// What is entered: a program with its arguments.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The program.
    pub command: &'a str,
    /// Its arguments. An entry that is there already keeps its own where none are given.
    pub args: &'a [String],
}

/// A server of a client's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Its name there.
    pub name: String,
    /// The program that it starts.
    pub command: Option<String>,
}

impl Registered {
    /// Whether it starts this bridge.
    pub fn is_own(&self) -> bool {
        let program = self
            .command
            .as_deref()
            .and_then(|command| command.rsplit('/').next());
        program == Some(PROGRAM)
    }
}

/// Why a file is left unchanged.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file system refuses to read or write it.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is not JSON, or not TOML.
    #[error("it cannot be parsed: {0}")]
    Syntax(String),
    /// Something else stands where servers belong.
    #[error("{0} is not an object")]
    NotAnObject(String),
    /// The name is taken by another server.
    #[error(
        "its entry {name:?} starts {}: choose another name with --name, or use --replace",
        command.as_deref().map_or("something else".to_owned(), |command| format!("{command:?}"))
    )]
    NotOwn {
        /// The name.
        name: String,
        /// What the entry starts.
        command: Option<String>,
    },
    /// It is a part of a generation of NixOS or home-manager.
    #[error(
        "it is a link into the Nix store: enter the server where that file is configured, such as programs.mcp.servers of home-manager"
    )]
    InStore,
    /// It is a link that leads nowhere.
    #[error("it is a link to a file that does not exist")]
    DanglingLink,
    /// It belongs to somebody else.
    #[error("it belongs to another user: run this as that user")]
    OtherOwner,
    /// Its owner has made it read-only.
    #[error("it is read-only: make it writable with chmod u+w")]
    ReadOnly,
    /// The edited text would say something else.
    #[error("the entry cannot be edited without touching others: edit the file by hand")]
    Unsafe,
    /// Somebody else writes it all the time.
    #[error("another program keeps changing it: close the client and try again")]
    Changed,
}

/// One edit of the servers in a file.
pub(super) enum Change<'a> {
    Add(Entry<'a>),
    /// Another program, everything else kept.
    Update(Entry<'a>),
    Replace(Entry<'a>),
    Remove,
}

/// A file before and after.
#[derive(Debug)]
pub struct Edit {
    file: FileText,
    after: String,
}

impl SearchPaths {
    /// The files in which the bridge can be entered, client by client.
    pub fn client_files(&self) -> Vec<ClientFile> {
        let mut files: Vec<ClientFile> = Vec::new();
        for candidate in self.candidates() {
            let Some((client, scope)) = candidate.registers else {
                continue;
            };
            let file = ClientFile {
                client,
                scope,
                path: candidate.path,
                syntax: candidate.syntax,
            };
            let same = |other: &&mut ClientFile| other.client == client && other.scope == scope;
            match files.iter_mut().find(same) {
                // The first one is where a new file is made, unless a later one is there.
                Some(other) if !other.path.exists() && file.path.exists() => *other = file,
                Some(_) => {}
                None => files.push(file),
            }
        }
        files.sort_by_key(|file| (file.client.name, file.scope));
        files
    }
}

impl ClientFile {
    /// Whether the client has left a trace on this machine: its file, or the file's folder.
    pub fn client_is_installed(&self, home: &std::path::Path) -> bool {
        let folder = self.path.parent();
        self.path.exists() || folder.is_some_and(|folder| folder != home && folder.exists())
    }

    /// The servers in the file.
    pub fn servers(&self) -> Result<Vec<Registered>, EditError> {
        let file = FileText::read(&self.path)?;
        let Some(tree) = self.parse(file.text())? else {
            return Ok(Vec::new());
        };
        let servers = self.find_servers(&tree).map(|(_, node)| node);
        let fields = servers.and_then(Node::fields).unwrap_or_default();
        let registered = fields.iter().map(|field| Registered {
            name: field.key.clone(),
            command: command_of(&field.node),
        });
        Ok(registered.collect())
    }

    /// The file with the bridge in it under `name`. An entry of the bridge's own keeps whatever
    /// else the user wrote there; another server of that name is replaced only on request.
    pub fn add(&self, name: &str, entry: Entry<'_>, replace: bool) -> Result<Edit, EditError> {
        let servers = self.servers()?;
        let change = match servers.iter().rfind(|server| server.name == name) {
            None => Change::Add(entry),
            Some(old) if old.is_own() => Change::Update(entry),
            Some(_) if replace => Change::Replace(entry),
            Some(old) => return Err(not_own(old)),
        };
        self.edit(name, &change)
    }

    /// The file without the bridge's entry of that name.
    pub fn remove(&self, name: &str) -> Result<Edit, EditError> {
        let servers = self.servers()?;
        match servers.iter().rfind(|server| server.name == name) {
            Some(other) if !other.is_own() => Err(not_own(other)),
            _ => self.edit(name, &Change::Remove),
        }
    }

    fn edit(&self, name: &str, change: &Change<'_>) -> Result<Edit, EditError> {
        let file = FileText::read(&self.path)?;
        let before = file.text();
        let before_tree = self.parse(before)?;
        if matches!(change, Change::Remove) && self.entry(before_tree.as_ref(), name).is_none() {
            let after = before.to_owned();
            return Ok(Edit { file, after });
        }
        let edit = match self.syntax {
            Syntax::Json => json::edit,
            Syntax::Toml => toml::edit,
        };
        let mut after = edit(before, self.client, name, change)?;
        if before.is_empty() && !after.ends_with('\n') {
            after.push('\n');
        }
        let after_tree = self.parse(&after).map_err(|_| EditError::Unsafe)?;
        let written = self.entry(after_tree.as_ref(), name);
        let right = match change {
            Change::Add(entry) | Change::Update(entry) | Change::Replace(entry) => {
                written.and_then(command_of).as_deref() == Some(entry.command)
            }
            Change::Remove => written.is_none(),
        };
        let others = |tree: Option<&Node>| self.without(tree, name);
        if !right || others(before_tree.as_ref()) != others(after_tree.as_ref()) {
            return Err(EditError::Unsafe);
        }
        Ok(Edit { file, after })
    }

    fn parse(&self, text: &str) -> Result<Option<Node>, EditError> {
        document::parse(text, self.syntax).map_err(|(at, reason)| {
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            EditError::Syntax(format!("line {line}: {reason}"))
        })
    }

    /// The path of keys to the servers, and the object there.
    fn find_servers<'n>(&self, tree: &'n Node) -> Option<(&'static [&'static str], &'n Node)> {
        self.client.roots.iter().find_map(|path| {
            let found = path.iter().try_fold(tree, |node, key| node.get(key))?;
            found.fields().map(|_| (*path, found))
        })
    }

    fn entry<'n>(&self, tree: Option<&'n Node>, name: &str) -> Option<&'n Node> {
        self.find_servers(tree?)?.1.get(name)
    }

    /// Everything in the file but the entry, and but the objects that are only there to hold it.
    fn without(&self, tree: Option<&Node>, name: &str) -> Value {
        let Some(tree) = tree else {
            return Value::Array(Vec::new());
        };
        let usual = self.client.roots.last().copied().unwrap_or_default();
        let path = self.find_servers(tree).map_or(usual, |(path, _)| path);
        stripped(tree, Some(path), name)
    }
}

impl Edit {
    /// Whether anything changes.
    pub fn is_change(&self) -> bool {
        self.file.text() != self.after
    }

    /// What changes, as a unified diff.
    pub fn diff(&self, shown: &str) -> String {
        let diff = similar::TextDiff::from_lines(self.file.text(), &self.after);
        let (old, new) = (format!("{shown} (now)"), format!("{shown} (then)"));
        diff.unified_diff().header(&old, &new).to_string()
    }

    /// Writes the file in one piece: links and the mode stay, and a file that has changed since it
    /// was read is [`EditError::Changed`].
    pub fn write(&self) -> Result<(), EditError> {
        self.file.replace(&self.after)
    }
}

fn not_own(server: &Registered) -> EditError {
    EditError::NotOwn {
        name: server.name.clone(),
        command: server.command.clone(),
    }
}

/// The program of an entry, in every client's way of writing it.
fn command_of(entry: &Node) -> Option<String> {
    let command = entry.get("command")?;
    let text = match &command.value {
        Tree::List(words) => words.first()?.text(),
        Tree::Map(_) => command.get("path")?.text(),
        _ => command.text(),
    };
    text.map(str::to_owned)
}

/// The tree without positions. On the way along `path` objects without anything else are left out,
/// and the entry `name` at its end.
fn stripped(node: &Node, path: Option<&[&str]>, name: &str) -> Value {
    match &node.value {
        Tree::Null => Value::Null,
        Tree::Bool(value) => json!(value),
        Tree::Number(text) => json!({"number": text}),
        Tree::Text(text) => json!(text),
        Tree::List(nodes) => {
            let nodes = nodes.iter().map(|node| stripped(node, None, name));
            json!({"list": nodes.collect::<Vec<_>>()})
        }
        Tree::Map(fields) => {
            let mut left = Vec::new();
            for field in fields {
                let (on_the_way, rest) = match path {
                    Some([]) if field.key == name => continue,
                    Some([first, rest @ ..]) if field.key == *first => (true, Some(rest)),
                    _ => (false, None),
                };
                let value = stripped(&field.node, rest, name);
                if !(on_the_way && value == json!([])) {
                    left.push(json!([field.key, value]));
                }
            }
            Value::Array(left)
        }
    }
}
