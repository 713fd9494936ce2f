//! How each client writes its servers down: where in the file, which variables, which unit of time.
//!
//! The names of fields are elsewhere: one table in `fields` has all spellings, since people copy entries between clients.

use super::document::{Node, Value};
use super::fields::{Field as Meaning, meaning};

/// One client's way of writing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The client, as it is called in reports.
    pub(super) client: &'static str,
    /// Paths of keys to its servers, in order of precedence.
    pub(super) roots: &'static [&'static [&'static str]],
    /// Whether a file without any of those keys may be one server, or servers by name.
    pub(super) flat: bool,
    /// What a plain `timeout` limits, and in which unit.
    pub(super) timeout: Timeout,
    /// `$NAME` is a variable.
    pub(super) bare_dollar: bool,
    /// How the client inserts the text of a file.
    pub(super) files: FileVariable,
    /// An entry may leave its command to an extension.
    pub(super) extensions: bool,
}

/// How a client inserts the text of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileVariable {
    /// The client cannot do that.
    None,
    /// `{file:path}`
    Braces,
    /// `${file:path}`
    Dollar,
}

/// What the number of a plain `timeout` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timeout {
    /// Milliseconds for a call.
    Milliseconds,
    /// Seconds for a call.
    Seconds,
    /// Milliseconds for the start.
    StartMilliseconds,
    /// For a call: below 1000 seconds, otherwise milliseconds. No client has this rule; it fits files of all clients.
    Guess,
}

/// In `roots`: stands for the key that is the working directory.
pub(super) const HERE: &str = "<working directory>";

const ALL_ROOTS: &[&[&str]] = &[
    &["mcpServers"],
    &["servers"],
    &["mcp", "servers"],
    &["mcp"],
    &["mcp_servers"],
    &["context_servers"],
];

/// The bridge's own folders and `MCP_SERVERS_CONFIG`: whatever any client writes.
pub(super) const GENERIC: Dialect = Dialect {
    client: "mcp-code-bridge",
    roots: ALL_ROOTS,
    flat: true,
    timeout: Timeout::Guess,
    bare_dollar: false,
    files: FileVariable::Dollar,
    extensions: false,
};

/// `~/.config/mcp/servers` and `./mcp-servers`, shared by several programs.
pub(super) const SHARED: Dialect = Dialect {
    client: "shared",
    files: FileVariable::None,
    ..GENERIC
};

/// `.mcp.json`.
pub(super) const CLAUDE_PROJECT: Dialect = Dialect {
    client: "Claude Code",
    timeout: Timeout::Milliseconds,
    ..SHARED
};

/// `~/.claude.json`.
pub(super) const CLAUDE_CODE: Dialect = Dialect {
    roots: &[&["mcpServers"], &["projects", HERE, "mcpServers"]],
    flat: false,
    ..CLAUDE_PROJECT
};

/// `claude_desktop_config.json`.
pub(super) const CLAUDE_DESKTOP: Dialect = Dialect {
    client: "Claude Desktop",
    roots: &[&["mcpServers"]],
    flat: false,
    ..CLAUDE_PROJECT
};

/// `mcp.json` of VS Code.
pub(super) const VS_CODE: Dialect = Dialect {
    client: "VS Code",
    timeout: Timeout::Milliseconds,
    ..SHARED
};

/// `settings.json` of VS Code.
pub(super) const VS_CODE_SETTINGS: Dialect = Dialect {
    roots: &[&["mcp", "servers"], &["mcp.servers"]],
    flat: false,
    ..VS_CODE
};

/// Cursor.
pub(super) const CURSOR: Dialect = Dialect {
    client: "Cursor",
    ..VS_CODE
};

/// `OpenCode`, both generations: `mcp.servers` and, before that, `mcp` itself.
pub(super) const OPENCODE: Dialect = Dialect {
    client: "OpenCode",
    roots: &[&["mcp", "servers"], &["mcp"]],
    flat: false,
    timeout: Timeout::StartMilliseconds,
    files: FileVariable::Braces,
    ..GENERIC
};

/// Windsurf.
pub(super) const WINDSURF: Dialect = Dialect {
    client: "Windsurf",
    timeout: Timeout::Seconds,
    files: FileVariable::Dollar,
    ..GENERIC
};

/// Gemini CLI; its `mcp` is something else than servers.
pub(super) const GEMINI: Dialect = Dialect {
    client: "Gemini CLI",
    roots: &[&["mcpServers"]],
    flat: false,
    timeout: Timeout::Milliseconds,
    bare_dollar: true,
    ..SHARED
};

/// Codex.
pub(super) const CODEX: Dialect = Dialect {
    client: "Codex",
    roots: &[&["mcp_servers"]],
    flat: false,
    timeout: Timeout::Seconds,
    ..SHARED
};

/// Zed.
pub(super) const ZED: Dialect = Dialect {
    client: "Zed",
    roots: &[&["context_servers"]],
    flat: false,
    timeout: Timeout::Seconds,
    extensions: true,
    ..SHARED
};

/// Whether a value reads like the definition of one server.
pub(super) fn is_entry(node: &Node) -> bool {
    node.fields().unwrap_or_default().iter().any(|field| {
        matches!(
            meaning(&field.key),
            Some(Meaning::Command | Meaning::Address)
        ) && (matches!(field.node.value, Value::Text(_) | Value::List(_))
            || field.node.get("path").is_some())
    })
}

impl Dialect {
    /// The objects in a file that hold servers by name, in order of precedence. `here` lists the spellings of the
    /// working directory.
    pub(super) fn servers<'n>(&self, root: &'n Node, here: &[String]) -> Vec<&'n Node> {
        let mut found: Vec<&Node> = Vec::new();
        for path in self.roots {
            let mut nodes = vec![root];
            for key in *path {
                nodes = nodes
                    .into_iter()
                    .flat_map(|node| {
                        let keys: &[String] = if *key == HERE {
                            here
                        } else {
                            &[(*key).to_owned()]
                        };
                        keys.iter()
                            .filter_map(|key| node.get(key))
                            .collect::<Vec<_>>()
                    })
                    .collect();
            }
            for node in nodes {
                // A server may itself be called "servers", and `mcp` with `servers` in it holds nothing else.
                let is_server = path.len() > 1 && is_entry(node);
                let is_parent = *path == ["mcp"]
                    && node
                        .get("servers")
                        .is_some_and(|servers| !is_entry(servers));
                if !is_server && !is_parent && !found.iter().any(|other| std::ptr::eq(*other, node))
                {
                    found.push(node);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Syntax, parse};

    fn names(dialect: &Dialect, text: &str) -> Vec<String> {
        let root = parse(text, Syntax::Json).unwrap().unwrap();
        let here = ["/work/project".to_owned()];
        let servers = dialect.servers(&root, &here);
        servers
            .iter()
            .flat_map(|node| node.fields().unwrap())
            .map(|field| field.key.clone())
            .collect()
    }

    #[test]
    fn each_client_keeps_its_servers_elsewhere() {
        for (dialect, text, expected) in [
            (
                &GENERIC,
                r#"{"mcpServers": {"a": {}}, "servers": {"b": {}}}"#,
                vec!["a", "b"],
            ),
            (
                &GENERIC,
                r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#,
                vec!["a"],
            ),
            (
                &GENERIC,
                r#"{"context_servers": {"a": {}}, "mcp_servers": {"b": {}}}"#,
                vec!["b", "a"],
            ),
            (&OPENCODE, r#"{"mcp": {"a": {"type": "local"}}}"#, vec!["a"]),
            (
                &OPENCODE,
                r#"{"mcp": {"servers": {"a": {"type": "local"}}}}"#,
                vec!["a"],
            ),
            (
                &OPENCODE,
                r#"{"mcp": {"servers": {"command": ["x"]}, "b": {}}}"#,
                vec!["servers", "b"],
            ),
            (
                &GEMINI,
                r#"{"mcp": {"allowed": ["a"]}, "mcpServers": {"a": {}}}"#,
                vec!["a"],
            ),
            (
                &CLAUDE_CODE,
                r#"{"mcpServers": {"a": {}}, "projects": {"/work/project": {"mcpServers": {"b": {}}}, "/x": {"mcpServers": {"c": {}}}}}"#,
                vec!["a", "b"],
            ),
            (
                &VS_CODE_SETTINGS,
                r#"{"mcp": {"servers": {"a": {}}}, "mcp.servers": {"b": {}}}"#,
                vec!["a", "b"],
            ),
            (&VS_CODE_SETTINGS, r#"{"servers": {"a": {}}}"#, vec![]),
        ] {
            assert_eq!(names(dialect, text), expected, "{} {text}", dialect.client);
        }
    }
}
