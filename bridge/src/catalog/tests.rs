//! Whole catalogs: one fixture for each dialect, and every reported fault of configurations as a test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;

/// A home and a project folder of their own.
struct World {
    folder: tempfile::TempDir,
    environment: BTreeMap<String, String>,
    platform: Platform,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home/MCPs", "project", "bin"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let bin = folder.path().join("bin").display().to_string();
        let environment = [("PATH", bin.as_str()), ("T", "token-of-the-user")];
        let environment = environment
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        Self {
            folder,
            environment,
            platform: Platform::Linux,
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// `CWD` in the text is the project folder.
    fn write(&self, path: &str, text: &str) -> PathBuf {
        let full = self.root().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(
            &full,
            text.replace("CWD", &self.root().join("project").display().to_string()),
        )
        .unwrap();
        full
    }

    fn program(&self, path: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let full = self.write(path, text);
        std::fs::set_permissions(&full, std::fs::Permissions::from_mode(0o755)).unwrap();
        full
    }

    fn places(&self) -> Places {
        let root = self.root();
        let home = root.join("home");
        let state = home.join("MCPs");
        Places {
            platform: self.platform,
            ..Places::new(home, root.join("project"), state, self.environment.clone())
        }
    }

    fn load(&self) -> Catalog {
        Catalog::load(self.places())
    }

    /// The catalog of one file in the state folder.
    fn of(&self, text: &str) -> Catalog {
        self.write("home/MCPs/servers.json", text);
        self.load()
    }

    /// Everything about a catalog, values included, with this world's folder as `/w`.
    fn described(&self, catalog: &Catalog) -> String {
        let mut text = String::new();
        for known in catalog.entries() {
            let place = catalog.place(&known.source);
            let _ = writeln!(
                text,
                "{} = {}  [{} {place}]",
                known.name, known.alias, known.source.client
            );
            if let Some(description) = &known.description {
                let _ = writeln!(text, "  description: {description}");
            }
            match &known.outcome {
                Outcome::Disabled => text.push_str("  disabled\n"),
                Outcome::Broken(reason) => drop(writeln!(text, "  broken: {reason}")),
                Outcome::Ready(definition) => describe(definition, &mut text),
            }
            for source in &known.passed_over {
                let _ = writeln!(
                    text,
                    "  passed over: {} {}",
                    source.client,
                    catalog.place(source)
                );
            }
        }
        for problem in catalog.problems() {
            let _ = writeln!(text, "{:?}: {problem}", problem.severity);
        }
        text.replace(&self.root().display().to_string(), "/w")
    }
}

fn describe(definition: &Definition, text: &mut String) {
    let values = |map: &BTreeMap<String, SecretString>| {
        map.iter()
            .map(|(name, value)| format!("{name}={}", value.expose_secret()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let _ = match &definition.transport {
        Transport::Stdio {
            command,
            args,
            env,
            cwd,
        } => {
            let cwd = cwd
                .as_ref()
                .map(|cwd| format!(" in {}", cwd.display()))
                .unwrap_or_default();
            writeln!(
                text,
                "  stdio: {command} {args:?}{cwd}\n  env: {}",
                values(env)
            )
        }
        Transport::Http { url, headers } => {
            writeln!(text, "  http: {url}\n  headers: {}", values(headers))
        }
    };
    if definition.start_timeout.is_some() || definition.call_timeout.is_some() {
        let _ = writeln!(
            text,
            "  limits: start {:?}, call {:?}",
            definition.start_timeout, definition.call_timeout
        );
    }
    if definition.tools != ToolFilter::default() {
        let _ = writeln!(text, "  tools: {:?}", definition.tools);
    }
    if !definition.secrets().is_empty() {
        let secrets: Vec<&str> = definition
            .secrets()
            .iter()
            .map(ExposeSecret::expose_secret)
            .collect();
        let _ = writeln!(text, "  secret: {secrets:?}");
    }
}

fn stdio(catalog: &Catalog, name: &str) -> (String, Vec<String>, BTreeMap<String, String>) {
    match &catalog.definition(name).unwrap().transport {
        Transport::Stdio {
            command, args, env, ..
        } => {
            let env = env
                .iter()
                .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
                .collect();
            (command.clone(), args.clone(), env)
        }
        Transport::Http { .. } => panic!("{name} is no stdio server"),
    }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog
        .definitions()
        .map(|definition| definition.name.0.as_str())
        .collect()
}

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

#[test]
fn every_place_is_considered_in_the_order_in_which_it_wins() {
    let mut world = World::new();
    world
        .environment
        .insert("MCP_SERVERS_CONFIG".to_owned(), "extra.json".to_owned());
    let list = |world: &World| {
        let places = world.places();
        let mut lines = String::new();
        for file in Catalog::load(places.clone()).files() {
            let _ = writeln!(lines, "{:16} {}", file.client, places.shown(&file.path));
        }
        lines
    };
    insta::assert_snapshot!("places_linux", list(&world));
    world.platform = Platform::MacOs;
    insta::assert_snapshot!("places_macos", list(&world));
}

#[test]
fn the_first_definition_of_a_name_wins() {
    let world = World::new();
    for (at, path) in [
        "project/.cursor/mcp.json",
        "home/.cursor/mcp.json",
        "project/.mcp.json",
        "home/MCPs/b.json",
        "home/MCPs/a.json",
    ]
    .iter()
    .enumerate()
    {
        world.write(
            path,
            &format!("{{\"mcpServers\": {{\"x\": {{\"command\": \"number-{at}\"}}}}}}"),
        );
        assert_eq!(stdio(&world.load(), "x").0, format!("number-{at}"));
    }
    assert_eq!(world.load().get("x").unwrap().passed_over.len(), 4);
}

// CFG-01
#[test]
fn variables_in_definitions_were_passed_literally() {
    let mut world = World::new();
    world
        .environment
        .insert("HOME".to_owned(), "/home/u".to_owned());
    world
        .environment
        .insert("P".to_owned(), "server".to_owned());
    let catalog = world.of(
        r#"{"mcpServers": {
          "good": {"command": "${P}", "args": ["${P}-x"], "cwd": "/${P}", "env": {"A": "${HOME}", "B": "${NOPE:-d}"}},
          "url": {"url": "https://${P}.example.com/${NOPE:-mcp}", "headers": {"X-${P}": "v", "K": "${T}"}},
          "bad": {"command": "x", "env": {"C": "${NOPE}"}}
        }}"#,
    );
    let (command, args, env) = stdio(&catalog, "good");
    assert_eq!(
        (command.as_str(), args.as_slice()),
        ("server", ["server-x".to_owned()].as_slice())
    );
    assert_eq!((env["A"].as_str(), env["B"].as_str()), ("/home/u", "d"));
    let error = catalog.definition("bad").unwrap_err().to_string();
    assert!(
        error.contains("NOPE")
            && error.contains("~/MCPs/servers.json:4:11")
            && error.contains("env.C"),
        "{error}"
    );
    // Names of headers are no values: what is no name is reported.
    assert!(
        catalog
            .definition("url")
            .unwrap_err()
            .to_string()
            .contains("no name for a header")
    );
}

// CFG-02, SEC-02
#[test]
fn a_header_with_a_variable_is_expanded_and_never_printed() {
    let world = World::new();
    let catalog = world.of(
        r#"{"mcpServers": {"a": {"url": "https://u:pa55word1@example.com/x/secret-path?api_key=query-key-1",
            "headers": {"Authorization": "Bearer ${T}"}}, "b": {"command": "x", "args": ["--key", "${T}"], "env": {"MYTHING": "ghp_of_the_block"}}}}"#,
    );
    let definition = catalog.definition("a").unwrap();
    let Transport::Http { headers, .. } = &definition.transport else {
        panic!("http")
    };
    assert_eq!(
        headers["Authorization"].expose_secret(),
        "Bearer token-of-the-user"
    );
    let secrets: Vec<&str> = catalog.secrets().map(ExposeSecret::expose_secret).collect();
    for secret in [
        "token-of-the-user",
        "Bearer token-of-the-user",
        "pa55word1",
        "query-key-1",
        "ghp_of_the_block",
    ] {
        assert!(secrets.contains(&secret), "{secret}: {secrets:?}");
    }
    let printed = format!(
        "{catalog:?} {:?} {}",
        catalog.definition("b"),
        definition.transport.shown()
    );
    for secret in ["token-of", "pa55word", "query-key", "ghp_", "secret-path"] {
        assert!(!printed.contains(secret), "{secret} in {printed}");
    }
}

// CFG-04
#[test]
fn a_whole_command_line_in_command_was_not_found() {
    let world = World::new();
    let with_blank = world.program("bin/my server", "#!/bin/sh\n");
    let text = format!(
        r#"{{"mcpServers": {{
          "line": {{"command": "docker run -i --rm x", "args": ["y"]}},
          "path": {{"command": "{}"}},
          "name": {{"command": "my server"}},
          "open": {{"command": "x 'y"}},
          "args": {{"command": "x", "args": "-y 'a b'"}},
          "empty": {{"command": "  "}}
        }}}}"#,
        with_blank.display()
    );
    let catalog = world.of(&text);
    assert_eq!(stdio(&catalog, "line").0, "docker");
    assert_eq!(stdio(&catalog, "line").1, ["run", "-i", "--rm", "x", "y"]);
    assert_eq!(stdio(&catalog, "path").0, with_blank.display().to_string());
    assert_eq!(stdio(&catalog, "name").0, "my server");
    assert_eq!(stdio(&catalog, "args").1, ["-y", "a b"]);
    let warning = &catalog.problems()[0];
    assert_eq!((warning.severity, warning.line), (Severity::Warning, 2));
    assert!(
        warning
            .to_string()
            .contains(r#"Write: "command": "docker", "args": ["run","-i","--rm","x","y"]"#),
        "{warning}"
    );
    assert!(
        catalog
            .definition("open")
            .unwrap_err()
            .to_string()
            .contains("quote")
    );
    assert!(
        catalog
            .definition("empty")
            .unwrap_err()
            .to_string()
            .contains("empty")
    );
}

// CFG-06
#[test]
fn a_comment_or_trailing_comma_dropped_the_whole_file() {
    let world = World::new();
    world.write(
        "project/.mcp.json",
        "{ // c\n \"mcpServers\": {\"a\":{\"command\":\"x\"},} }",
    );
    world.write(
        "home/.cursor/mcp.json",
        "\u{feff}{\"mcpServers\": {\"b\": {\"command\": \"x\"}}}",
    );
    world.write(
        "home/.gemini/settings.json",
        "{\"mcpServers\": {\"c\": {\"command\": \"x\"}}\n oops",
    );
    let catalog = world.load();
    assert_eq!(names(&catalog), ["a", "b"]);
    let problem = &catalog.problems()[0];
    assert!(
        problem
            .to_string()
            .contains(".gemini/settings.json:1:39: expected comma"),
        "{problem}"
    );
    assert_eq!(problem.server, None);
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
        "no name for an environment variable",
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
        "no name for a header",
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
fn an_unknown_key_was_ignored_in_silence() {
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

// CFG-10
#[test]
fn nobody_knew_which_file_is_read() {
    let world = World::new();
    let server = |name: &str| format!("{{\"mcpServers\": {{\"{name}\": {{\"command\": \"x\"}}}}}}");
    world.write("project/.mcp.json", &server("root"));
    world.write("home/.claude/.mcp.json", &server("nowhere"));
    world.write("home/.mcp.json", &server("parent"));
    world.write("home/.claude/plugins/p/.mcp.json", &server("plugin"));
    world.write("home/.claude/settings.json", &server("settings"));
    world.write(
        "home/.claude.json",
        r#"{"mcpServers": {"top": {"command": "x"}}, "projects": {"CWD": {"mcpServers": {"here": {"command": "x"}}}, "/y": {"mcpServers": {"there": {"command": "x"}}}}}"#,
    );
    let catalog = world.load();
    assert_eq!(names(&catalog), ["here", "root", "settings", "top"]);
    let ignored: Vec<_> = catalog
        .files()
        .iter()
        .filter_map(|file| match file.state {
            FileState::Ignored(why) => Some((catalog.places().shown(&file.path), why)),
            _ => None,
        })
        .collect();
    assert_eq!(
        ignored
            .iter()
            .map(|(path, _)| path.as_str())
            .collect::<Vec<_>>(),
        ["~/.claude/.mcp.json", "~/.mcp.json", "~/.claude/plugins"]
    );
    assert!(ignored[0].1.contains("no client"));
    assert!(ignored[2].1.contains("out of scope"), "CFG-12");
}

// CFG-13
#[test]
fn the_bridge_found_itself_and_recursed() {
    let world = World::new();
    let own = world.program("bin/bridge-under-test", "\u{7f}ELF");
    world.write(
        "home/MCPs/a.json",
        r#"{"mcpServers": {
            "shell": {"command": "sh", "args": ["-c", "exec bridge-under-test"]},
            "direct": {"command": "bridge-under-test", "args": ["serve"]},
            "uvx": {"command": "uvx", "args": ["mcp-code-bridge"]},
            "line": {"command": "nix run github:x/mcp-code-bridge"},
            "remote": {"url": "https://example.com/mcp-code-bridge"},
            "other": {"command": "other", "args": ["/src/mcp-code-bridge"]}
        }}"#,
    );
    let load = |allow_self| {
        Catalog::load(Places {
            executable: Some(own.clone()),
            allow_self,
            ..world.places()
        })
    };
    let catalog = load(false);
    assert_eq!(names(&catalog), ["other", "remote"]);
    let error = catalog.definition("shell").unwrap_err().to_string();
    assert!(
        error.contains("start this bridge again (through sh)")
            && error.contains("ALLOW_SELF_SERVER"),
        "{error}"
    );
    assert_eq!(load(true).definitions().count(), 6);
    assert_eq!(
        stdio(&catalog, "other").2[depth::VARIABLE],
        "1",
        "what slips through is counted"
    );
}

#[test]
fn a_bad_definition_hid_a_good_one_of_the_same_name() {
    let world = World::new();
    world.write("home/MCPs/a.json", r#"{"mcpServers": {"x": {"command": "${NOPE}"}, "off": {"command": "x", "disabled": true}}}"#);
    world.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"x": {"command": "good"}, "off": {"command": "x"}}}"#,
    );
    let catalog = world.load();
    assert_eq!(stdio(&catalog, "x").0, "good");
    assert_eq!(catalog.problems().len(), 1);
    assert!(
        catalog
            .definition("off")
            .unwrap_err()
            .to_string()
            .contains("disabled in ~/MCPs/a.json:1:")
    );
}

#[test]
fn a_name_that_stands_twice_in_a_file_is_noticed() {
    let catalog = World::new().of("{\"mcpServers\": {\n\"x\": {\"command\": \"one\"},\n\"x\": {\"command\": \"two\", \"command\": \"three\"}}}");
    assert_eq!(stdio(&catalog, "x").0, "three", "as JavaScript reads it");
    let lines: Vec<usize> = catalog
        .problems()
        .iter()
        .map(|problem| problem.line)
        .collect();
    assert_eq!(lines, [2, 3]);
}

#[test]
fn an_unknown_name_is_answered_with_what_there_is() {
    let catalog = World::new()
        .of(r#"{"mcpServers": {"jira": {"command": "x"}, "git-hub": {"command": "x"}}}"#);
    assert_eq!(
        catalog.definition("jirra").unwrap_err().to_string(),
        "no server \"jirra\"; known: git-hub, jira (did you mean jira?)"
    );
    assert_eq!(
        catalog.definition("git_hub").unwrap().name.0,
        "git-hub",
        "an alias will do"
    );
}

#[test]
fn hostile_files_cost_only_themselves() {
    let world = World::new();
    world.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"good": {"command": "x"}}}"#,
    );
    let state = world.root().join("home/MCPs");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(state.join("fifo.json"))
            .status()
            .unwrap()
            .success()
    );
    std::os::unix::fs::symlink(state.join("loop.json"), state.join("loop.json")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", state.join("zero.json")).unwrap();
    std::fs::create_dir(state.join("folder.json")).unwrap();
    world.write("home/MCPs/nul.json", "{\"mcpServers\": {}}\0");
    world.write("home/MCPs/deep.json", &"[".repeat(200_000));
    world.write("home/MCPs/list.json", "[]");
    world.write(
        "home/MCPs/roots.json",
        r#"{"mcpServers": [], "servers": null}"#,
    );
    world.write(
        "home/MCPs/names.json",
        r#"{"mcpServers": {"": {"command": "x"}, "a\u0000": {"command": "x"}}}"#,
    );
    let mut many = String::from("{\"mcpServers\": {");
    for number in 0..1500 {
        let _ = write!(many, "\"s{number}\": {{\"command\": \"x\"}},");
    }
    world.write("home/MCPs/many.json", &(many + "}}"));
    std::fs::write(state.join("large.json"), vec![b' '; 5 << 20]).unwrap();
    let started = std::time::Instant::now();
    let catalog = world.load();
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(catalog.definition("good").is_ok());
    assert_eq!(catalog.definitions().count(), 1001);
    let text = world.described(&catalog);
    for reason in [
        "fifo.json: is a FIFO",
        "loop.json: cannot be read",
        "zero.json: is a device",
        "folder.json: is a folder",
        "nul.json: is not UTF-8 text",
        "deep.json:1:",
        "list.json:1:1: the file must be an object, not a list",
        "roots.json:1:16: the servers must be an object",
        "a server needs a name",
        "the name contains a NUL",
        "more than 1000 servers",
        "large.json: is larger than 4 MiB",
    ] {
        assert!(text.contains(reason), "{reason}");
    }
}

#[test]
fn an_edit_is_picked_up_and_an_older_snapshot_stays_as_it_was() {
    let world = World::new();
    let path = world.write(
        "home/MCPs/a.json",
        r#"{"mcpServers": {"a": {"command": "x", "envFile": "e.env"}}}"#,
    );
    let env_file = world.write("project/e.env", "A=1");
    let settle = |path: &Path| {
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        std::fs::File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    };
    settle(&path);
    settle(&env_file);
    let watcher = Watcher::new(world.places());
    let first = watcher.current();
    let folder = std::fs::File::open(world.root().join("home/MCPs")).unwrap();
    folder
        .set_modified(std::time::SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    let first_settled = watcher.current();
    assert!(
        Arc::ptr_eq(&first_settled, &watcher.current()),
        "nothing changed, nothing is read"
    );

    world.write(
        "home/MCPs/b.json",
        r#"{"mcpServers": {"b": {"command": "x"}}}"#,
    );
    let second = watcher.current();
    assert_eq!((names(&first), names(&second)), (vec!["a"], vec!["a", "b"]));

    world.write("project/e.env", "A=2");
    assert_eq!(stdio(&watcher.current(), "a").2["A"], "2");

    world.write(
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"c": {"command": "x"}}}"#,
    );
    assert_eq!(names(&watcher.current()), ["a", "b", "c"]);

    std::fs::remove_file(&path).unwrap();
    assert_eq!(names(&watcher.current()), ["b", "c"]);
    assert_eq!(stdio(&first, "a").2["A"], "1");
}

#[test]
fn the_hash_changes_with_what_is_run_and_with_nothing_else() {
    let world = World::new();
    let hash = |entry: &str| {
        world
            .of(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#))
            .definition("a")
            .unwrap()
            .hash
            .clone()
    };
    let base = hash(r#"{"command": "x", "args": ["a", "b"]}"#);
    assert_eq!(
        base,
        hash(r#"{"args": ["a", "b"], "command": "x", "description": "d", "timeout": 3}"#)
    );
    for other in [
        r#"{"command": "y", "args": ["a", "b"]}"#,
        r#"{"command": "x", "args": ["ab"]}"#,
        r#"{"command": "x", "args": ["a", "b"], "env": {"A": "1"}}"#,
        r#"{"command": "x", "args": ["a", "b"], "cwd": "/"}"#,
        r#"{"url": "http://x/", "headers": {"a": "b"}}"#,
    ] {
        assert_ne!(base, hash(other), "{other}");
    }
}

#[test]
fn one_file_in_two_places_is_read_once() {
    let world = World::new();
    world.write(
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
    );
    let here = world.root().join("project/.cursor");
    std::os::unix::fs::symlink(world.root().join("home/.cursor"), here).unwrap();
    let catalog = world.load();
    assert!(catalog.get("a").unwrap().passed_over.is_empty());
    assert!(catalog.files().iter().any(|file| matches!(
        file.state,
        FileState::Ignored("is the same file as one above")
    )));
}

#[test]
fn home_as_the_working_directory_is_considered_once() {
    let world = World::new();
    world.write(
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
    );
    world.write(
        "home/.mcp.json",
        r#"{"mcpServers": {"b": {"command": "x"}}}"#,
    );
    let home = world.root().join("home");
    let catalog = Catalog::load(Places {
        cwd: home,
        ..world.places()
    });
    assert_eq!(names(&catalog), ["a", "b"]);
    let paths: std::collections::BTreeSet<_> =
        catalog.files().iter().map(|file| &file.path).collect();
    assert_eq!(paths.len(), catalog.files().len());
}

#[test]
fn a_file_that_the_user_named_must_exist() {
    let mut world = World::new();
    world
        .environment
        .insert("MCP_SERVERS_CONFIG".to_owned(), "~/nowhere.json".to_owned());
    let catalog = world.load();
    assert!(
        catalog.problems()[0]
            .to_string()
            .ends_with("/home/nowhere.json: cannot be read: it does not exist")
    );
    world.write("home/more.toml", "[mcp_servers.t]\ncommand = 'x'\n");
    world
        .environment
        .insert("MCP_SERVERS_CONFIG".to_owned(), "~/more.toml".to_owned());
    assert_eq!(names(&world.load()), ["t"]);
}

#[test]
fn three_hundred_servers_load_quickly() {
    let world = World::new();
    let mut text = String::from("{\"mcpServers\": {");
    for number in 0..300 {
        let _ = write!(
            text,
            "\"s{number}\": {{\"command\": \"npx\", \"args\": [\"-y\", \"pkg-{number}\"]}},"
        );
    }
    world.program("bin/npx", "#!/usr/bin/env node\n");
    world.write("home/.claude.json", &(text + "}}"));
    let load = || {
        let started = std::time::Instant::now();
        assert_eq!(world.load().definitions().count(), 300);
        started.elapsed()
    };
    // The best of three, with room for unoptimised code on a busy machine.
    let best = (0..3).map(|_| load()).min().unwrap_or_default();
    assert!(best < Duration::from_secs(1), "{best:?}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn no_entry_makes_loading_panic(
        key in "(command|args|env|url|type|headers|timeout|cwd|envFile|disabled|transport|env_vars|includeTools|requestInit)",
        value in r#"("[$\{a-z:/ -]{0,12}\}?"|[0-9.-]{1,5}|null|true|\[("a"|1|\{\})?\]|\{("a": ("b"|1|null))?\})"#,
    ) {
        let world = World::new();
        let catalog = world.of(&format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"x\", \"{key}\": {value}}}, \"b\": {{\"{key}\": {value}}}}}}}"));
        let _ = world.described(&catalog);
    }
}

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        title: None,
        description: Some(format!("{name} does something")),
        input_schema: serde_json::json!({"type": "object"}),
        output_schema: None,
    }
}

#[test]
fn tools_are_found_before_their_server_runs() {
    let world = World::new();
    let catalog = world.of(r#"{"mcpServers": {
            "a-b": {"command": "x", "excludeTools": ["hidden_issue"]},
            "issue-tracker": {"command": "y"}, "zoo": {"command": "z"}, "alpha": {"command": "z"}
        }}"#);
    let definition = catalog.definition("a-b").unwrap();
    let cache = ToolCache::below(&world.root().join("cache"));
    let tools = || {
        vec![
            tool("create.issue"),
            tool("create_issue"),
            tool("hidden_issue"),
        ]
    };
    ToolBook::new(Some(cache.clone())).learn(definition, tools());

    // Another process, another day.
    let book = ToolBook::new(Some(cache.clone()));
    let findings = book.search(&catalog, "issue", 5);
    let hits: Vec<_> = findings
        .hits
        .iter()
        .map(|hit| (hit.server_alias.as_str(), hit.alias()))
        .collect();
    assert_eq!(hits, [("a_b", "create_issue_2"), ("a_b", "create_issue")]);
    let not_started: Vec<_> = findings
        .not_started
        .iter()
        .map(|name| name.0.as_str())
        .collect();
    assert_eq!(
        not_started,
        ["issue-tracker", "alpha", "zoo"],
        "the one that fits comes first"
    );
    let list = book.tools(definition).unwrap();
    assert_eq!(list.get("create.issue").unwrap().1, "create_issue_2");
    assert_eq!(list.get("create_issue_2").unwrap().0.name, "create.issue");
    assert_eq!(list.closest("creat_issue"), Some("create_issue"));

    // What is learned again is found at once.
    book.learn(definition, vec![tool("merge_branch")]);
    assert_eq!(book.search(&catalog, "issue", 5).hits.len(), 0);
    assert_eq!(book.search(&catalog, "branch", 5).hits.len(), 1);

    // A changed definition has no list.
    let changed = world.of(r#"{"mcpServers": {"a-b": {"command": "other"}}}"#);
    assert!(
        ToolBook::new(Some(cache))
            .tools(changed.definition("a-b").unwrap())
            .is_none()
    );
}

#[test]
fn a_spoilt_cache_counts_as_none() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let catalog = world.of(r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    let definition = catalog.definition("a").unwrap();
    let cache = ToolCache::below(&world.root().join("cache"));
    let path = world
        .root()
        .join(format!("cache/tools/{}.json", definition.hash));
    ToolBook::new(Some(cache.clone())).learn(definition, vec![tool("t")]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&path), mode(path.parent().unwrap())),
        (0o600, 0o700),
        "lists may tell of private systems"
    );
    for spoilt in [
        "",
        "{",
        "{}",
        r#"{"version": 9, "server": "a", "tools": []}"#,
        r#"{"version": 1, "tools": [{"nam": 1}]}"#,
    ] {
        std::fs::write(&path, spoilt).unwrap();
        assert!(
            ToolBook::new(Some(cache.clone()))
                .tools(definition)
                .is_none(),
            "{spoilt}"
        );
    }
    std::fs::remove_dir_all(world.root().join("cache")).unwrap();
    std::fs::write(world.root().join("cache"), "in the way").unwrap();
    assert_eq!(
        ToolBook::new(Some(cache))
            .learn(definition, vec![tool("t")])
            .tools
            .len(),
        1,
        "works without"
    );
}

#[test]
fn the_cache_does_not_grow_for_ever() {
    let world = World::new();
    let cache = ToolCache::below(&world.root().join("cache"));
    for number in 0..514 {
        let catalog = world.of(&format!(
            r#"{{"mcpServers": {{"a": {{"command": "x{number}"}}}}}}"#
        ));
        ToolBook::new(Some(cache.clone())).learn(catalog.definition("a").unwrap(), Vec::new());
    }
    assert_eq!(
        std::fs::read_dir(world.root().join("cache/tools"))
            .unwrap()
            .count(),
        512
    );
}
