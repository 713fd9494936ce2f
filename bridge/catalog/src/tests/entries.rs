//! Single entries, good and bad: variables, command lines, names, the bridge itself.

use super::*;

// CFG-01
#[test]
fn variables_in_definitions_are_expanded() {
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
    // Names of headers are not expanded: an invalid name is reported.
    assert!(
        catalog
            .definition("url")
            .unwrap_err()
            .to_string()
            .contains("invalid name of a header")
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
fn whole_command_line_in_command_is_split_with_a_warning() {
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

// CFG-13
#[test]
fn definitions_of_the_bridge_itself_are_refused() {
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
        Catalog::load(SearchPaths {
            executable: Some(own.clone()),
            allow_self,
            ..world.search_paths()
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
fn usable_definition_wins_over_a_broken_one_before_it() {
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
fn servers_in_a_list_are_read() {
    let world = World::new();
    let catalog = world.of(r#"{"mcpServers": [
          {"name": "a", "command": "x"},
          {"name": "b", "transport": {"type": "streaming-http", "URL": "https://example.com/mcp"}},
          {"command": "nameless"},
          {"name": "off", "cmd": "x", "isActive": false}
        ]}"#);
    assert_eq!(names(&catalog), ["a", "b"]);
    let off = &catalog.get("off").unwrap().outcome;
    assert!(matches!(off, Outcome::Disabled), "{off:?}");
    let [problem] = catalog.problems() else {
        panic!("{:?}", catalog.problems())
    };
    assert_eq!((problem.line, problem.column), (4, 11));
    assert_eq!(problem.reason, Reason::NoName);
}

#[test]
fn repeated_key_is_reported_with_the_servers_it_costs() {
    let world = World::new();
    let catalog = world.of(r#"{"mcpServers": {"a": {"command": "x"}},
            "mcpServers": {"b": {"command": "y"}}}"#);
    assert_eq!(names(&catalog), ["b"]);
    let [problem] = catalog.problems() else {
        panic!("{:?}", catalog.problems())
    };
    assert_eq!((problem.line, problem.column), (1, 2));
    assert_eq!(
        problem.reason.to_string(),
        "\"mcpServers\" occurs twice; the last one counts"
    );
}
