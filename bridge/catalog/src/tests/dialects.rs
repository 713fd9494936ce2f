//! How each client writes its entries.

use super::*;

const FIXTURES: [(&str, &str, &str); 14] = [
    (
        "state",
        "home/MCPs/servers.json",
        include_str!("fixtures/state.json"),
    ),
    (
        "single",
        "home/MCPs/lonely.json",
        include_str!("fixtures/single.json"),
    ),
    (
        "shared",
        "home/.config/mcp/servers/all.json",
        include_str!("fixtures/shared.json"),
    ),
    (
        "claude_project",
        "project/.mcp.json",
        include_str!("fixtures/claude_project.json"),
    ),
    (
        "vs_code",
        "project/.vscode/mcp.json",
        include_str!("fixtures/vs_code.json"),
    ),
    (
        "claude_code",
        "home/.claude.json",
        include_str!("fixtures/claude_code.json"),
    ),
    (
        "cursor",
        "home/.cursor/mcp.json",
        include_str!("fixtures/cursor.json"),
    ),
    (
        "opencode_1",
        "home/.opencode.json",
        include_str!("fixtures/opencode_1.json"),
    ),
    (
        "opencode_2",
        "home/.config/opencode/opencode.jsonc",
        include_str!("fixtures/opencode_2.jsonc"),
    ),
    (
        "windsurf",
        "home/.codeium/windsurf/mcp_config.json",
        include_str!("fixtures/windsurf.json"),
    ),
    (
        "claude_desktop",
        "home/.config/Claude/claude_desktop_config.json",
        include_str!("fixtures/claude_desktop.json"),
    ),
    (
        "gemini",
        "home/.gemini/settings.json",
        include_str!("fixtures/gemini.json"),
    ),
    (
        "codex",
        "home/.codex/config.toml",
        include_str!("fixtures/codex.toml"),
    ),
    (
        "zed",
        "home/.config/zed/settings.json",
        include_str!("fixtures/zed.json"),
    ),
];

#[test]
fn every_dialect_reads_as_its_client_means_it() {
    for (dialect, path, text) in FIXTURES {
        let world = World::new();
        world.write(path, text);
        world.write("home/key", "key-of-a-file\n");
        world.write("home/cursor.env", "A=from-cursor\n");
        world.write(
            "project/.env",
            "A=of the file\nB=of the file\nGONE=1\nnonsense\n",
        );
        insta::assert_snapshot!(dialect, world.described(&world.load()));
    }
    let world = World::new();
    world.write(
        "home/.config/Code/User/settings.json",
        include_str!("fixtures/vs_code_settings.json"),
    );
    insta::assert_snapshot!("vs_code_settings", world.described(&world.load()));
}

// CFG-07: an entry, and how it is reached or what is said about it.
const ENTRIES: [(&str, &str); 30] = [
    (r#"{"url": "http://h/mcp"}"#, "http"),
    (r#"{"type": "stdio", "command": "x"}"#, "stdio"),
    (r#"{"type": "local", "command": ["x"]}"#, "stdio"),
    (r#"{"command": "x"}"#, "stdio"),
    (
        r#"{"type": "http", "command": "x", "url": "http://h"}"#,
        "http",
    ),
    (r#"{"command": "x", "url": "http://h"}"#, "stdio"),
    (r#"{"type": "sse", "url": "http://h/sse"}"#, "HTTP+SSE"),
    (r#"{"type": "ws", "url": "ws://h"}"#, "WebSocket"),
    (
        r#"{"type": "pigeon", "url": "http://h"}"#,
        "unknown type \"pigeon\"",
    ),
    (r#"{"type": "http", "command": "x"}"#, "needs a url"),
    (r#"{"type": "stdio", "url": "http://h"}"#, "needs a command"),
    (
        r#"{"url": "docker://mcp/time"}"#,
        "unsupported scheme docker://; use command/args",
    ),
    (
        r#"{"url": "example.com/mcp"}"#,
        "is not an http:// or https:// address",
    ),
    (
        r#"{"url": "http://"}"#,
        "is not an http:// or https:// address",
    ),
    (
        r#"{"url": "http://a b/"}"#,
        "is not an http:// or https:// address",
    ),
    ("{}", "neither a command nor a url"),
    ("\"npx x\"", "must be an object, not a text"),
    ("null", "must be an object, not null"),
    (
        r#"{"command": 1}"#,
        "must be a text or a list of texts, not a number",
    ),
    (r#"{"command": []}"#, "\"command\" is empty"),
    (
        r#"{"command": "x", "args": {}}"#,
        "\"args\" must be a list of texts, not an object",
    ),
    (
        r#"{"command": "x", "args": [["y"]]}"#,
        "must be a text, not a list",
    ),
    (
        r#"{"command": "x", "env": ["A=1"]}"#,
        "\"env\" must be an object, not a list",
    ),
    (
        r#"{"command": "x", "env": {"A": {"file": "/x"}}}"#,
        "env.A must be a text, not an object",
    ),
    (
        r#"{"command": "x", "env": {"A=B": "1"}}"#,
        "invalid name of an environment variable",
    ),
    (r#"{"command": "x", "args": ["a\u0000b"]}"#, "NUL"),
    (
        r#"{"command": "x", "disabled": "maybe"}"#,
        "must be true or false",
    ),
    (
        r#"{"command": "x", "includeTools": "read"}"#,
        "must be a list of names",
    ),
    (
        r#"{"url": "http://h", "headers": {"A\nB": "x"}}"#,
        "invalid name of a header",
    ),
    (
        r#"{"url": "http://h", "headers": {"A": "x\r\ny"}}"#,
        "control character",
    ),
];

#[test]
fn each_client_spells_transports_differently() {
    let world = World::new();
    for kind in [
        "http",
        "streamable-http",
        "streamableHttp",
        "streamable_http",
        "remote",
    ] {
        for key in ["url", "httpUrl", "serverUrl"] {
            let catalog = world.of(&format!(
                r#"{{"mcpServers": {{"a": {{"type": "{kind}", "{key}": "http://h/mcp"}}}}}}"#
            ));
            assert_eq!(
                catalog.definition("a").unwrap().transport.kind(),
                "http",
                "{kind} {key}"
            );
            assert_eq!(catalog.problems(), []);
        }
    }
    for (entry, expected) in ENTRIES {
        let catalog = world.of(&format!(
            r#"{{"mcpServers": {{"a": {entry}, "good": {{"command": "x"}}}}}}"#
        ));
        let outcome = match catalog.definition("a") {
            Ok(definition) => definition.transport.kind().to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(outcome.contains(expected), "{entry}: {outcome}");
        assert!(
            catalog.definition("good").is_ok(),
            "{entry} costs only itself"
        );
    }
}

#[test]
fn unknown_keys_are_reported() {
    let catalog =
        World::new().of(r#"{"mcpServers": {"a": {"comand": "y", "command": "x", "zzz": 1}}}"#);
    let text: Vec<String> = catalog
        .problems()
        .iter()
        .map(|problem| problem.reason.to_string())
        .collect();
    assert_eq!(
        text,
        [
            "unknown key \"comand\" is ignored (did you mean \"command\"?)",
            "unknown key \"zzz\" is ignored"
        ]
    );
    assert!(catalog.definition("a").is_ok());
}
