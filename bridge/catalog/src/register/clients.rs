//! The clients in whose own files the bridge can be entered, and how each writes an entry down.

use serde_json::{Value, json};

/// A client that keeps its servers in a file of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// As on the command line, such as `claude-code`.
    pub name: &'static str,
    /// As people call it.
    pub title: &'static str,
    /// Paths of keys to its servers: the first that a file has is used, otherwise the last.
    pub(super) roots: &'static [&'static [&'static str]],
    pub(super) form: Form,
}

/// How an entry looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `command` and `args`.
    Plain,
    /// The same with `type: stdio`.
    Typed,
    /// `OpenCode`: program and arguments in one list.
    OneList,
    /// Zed: says that no extension brings the server.
    Custom,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The user's, for all projects.
    User,
    /// The project's in the working directory.
    Project,
}

impl Scope {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

const MCP_SERVERS: &[&[&str]] = &[&["mcpServers"]];

macro_rules! clients {
    ($($constant:ident: $name:literal, $title:literal, $roots:expr, $form:ident;)*) => {
        $(pub(crate) const $constant: Client = Client {
            name: $name,
            title: $title,
            roots: $roots,
            form: Form::$form,
        };)*

        /// All of them, by name.
        pub const CLIENTS: &[Client] = &[$($constant),*];
    };
}

clients! {
    CLAUDE_CODE: "claude-code", "Claude Code", MCP_SERVERS, Typed;
    CLAUDE_DESKTOP: "claude-desktop", "Claude Desktop", MCP_SERVERS, Plain;
    CODEX: "codex", "Codex", &[&["mcp_servers"]], Plain;
    CURSOR: "cursor", "Cursor", MCP_SERVERS, Plain;
    GEMINI: "gemini", "Gemini CLI", MCP_SERVERS, Plain;
    OPENCODE: "opencode", "OpenCode", &[&["mcp", "servers"], &["mcp"]], OneList;
    VSCODE: "vscode", "VS Code", &[&["servers"]], Typed;
    VSCODE_INSIDERS: "vscode-insiders", "VS Code Insiders", &[&["servers"]], Typed;
    VSCODIUM: "vscodium", "VSCodium", &[&["servers"]], Typed;
    WINDSURF: "windsurf", "Windsurf", MCP_SERVERS, Plain;
    ZED: "zed", "Zed", &[&["context_servers"]], Custom;
}

/// `clients.json`: names and titles, for the option of the home-manager module.
pub fn clients_json() -> String {
    let clients: Vec<Value> = CLIENTS
        .iter()
        .map(|client| json!({"name": client.name, "title": client.title}))
        .collect();
    format!("{:#}\n", Value::Array(clients))
}

impl Form {
    /// The entry that starts `command` with `args`.
    pub(super) fn entry(self, command: &str, args: &[String]) -> Value {
        match self {
            Self::Plain => json!({"command": command, "args": args}),
            Self::Typed => json!({"type": "stdio", "command": command, "args": args}),
            Self::OneList => {
                let words: Vec<&str> = std::iter::once(command)
                    .chain(args.iter().map(String::as_str))
                    .collect();
                json!({"type": "local", "command": words, "enabled": true})
            }
            Self::Custom => json!({"source": "custom", "command": command, "args": args}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_names_for_nix_are_those_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clients.json");
        let committed = std::fs::read_to_string(path).expect("committed");
        assert!(
            committed == clients_json(),
            "bridge/catalog/src/clients.json differs from the table: run make reference and commit it"
        );
    }
}
