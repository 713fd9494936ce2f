//! The command line for memories and saved tools.

use integration_tests::Home;
use integration_tests::bridge::Builder;
use serde_json::Value;

use super::State;

/// Runs a command on a state folder without an engine.
fn command(state: &State, arguments: &[&str]) -> integration_tests::cli::Ran {
    let builder =
        Builder::new(None).variable("MCP_BRIDGE_STATE_DIR", state.path().display().to_string());
    integration_tests::cli::run(builder, arguments, b"")
}

#[test]
fn command_line_shows_and_deletes_memories_and_tools() {
    let state = State::new();
    state.write("memory/a_b.json", r#"{"key": "a b", "value": {"x": 1.50}, "metadata": {}, "created_at": 1.5, "updated_at": 2.5}"#);
    state.write("memory/torn.json", "{");
    state.write("user_tools.py", "X = 1\n# >>> tool f (saved 2026-11-29T21:57:00Z by session s)\ndef f(x): return x\n# <<< tool f\n");
    let listed = command(&state, &["memory", "list"]);
    assert_eq!(listed.code, Some(0));
    assert!(
        listed.stdout.contains("a b ") && listed.stdout.contains("set aside: torn.json.corrupt-"),
        "{}",
        listed.stdout
    );
    let listed: Value =
        serde_json::from_str(&command(&state, &["memory", "list", "--json"]).stdout).unwrap();
    assert_eq!(listed["memories"][0]["key"], "a b");
    assert_eq!(
        command(&state, &["memory", "show", "a b"]).stdout,
        "{\n  \"x\": 1.50\n}\n"
    );
    let all: Value = serde_json::from_str(&command(&state, &["memory", "export"]).stdout).unwrap();
    assert_eq!(all["memories"][0]["updated_at"], 2.5);
    assert_eq!(command(&state, &["memory", "delete", "a b"]).code, Some(0));
    let gone = command(&state, &["memory", "delete", "a b"]);
    assert_eq!(
        (gone.code, gone.stderr.trim()),
        (
            Some(1),
            "mcp-code-bridge: no memory \"a b\"; `mcp-code-bridge memory list` shows all"
        )
    );
    assert!(
        command(&state, &["tools", "list"])
            .stdout
            .contains("def f(x): return x")
    );
    assert_eq!(
        command(&state, &["tools", "show", "f"]).stdout,
        "def f(x): return x\n"
    );
    assert_eq!(command(&state, &["tools", "delete", "f"]).code, Some(0));
    assert_eq!(command(&state, &["tools", "show", "f"]).code, Some(1));
    assert_eq!(state.read("user_tools.py"), "X = 1\n");
    assert_eq!(command(&state, &["memory", "show"]).code, Some(2));
}

#[test]
fn values_that_json_parsers_reject_are_exported_unchanged() {
    let state = State::new();
    let half = r#"{"key": "half", "value": ["\ud800", 1e999], "metadata": {}, "created_at": 1.5, "updated_at": 2.5}"#;
    state.write("memory/half.json", half);
    for arguments in [
        &["memory", "export"][..],
        &["memory", "show", "half"],
        &["memory", "show", "half", "--json"],
    ] {
        let ran = command(&state, arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stdout.contains(r#"["\ud800", 1e999]"#),
            "{arguments:?}: {}",
            ran.stdout
        );
    }
}

#[test]
fn each_project_can_have_its_own_state() {
    let state = State::new();
    let home = Home::new(None);
    state.write("memory/shared.json", r#"{"key": "shared", "value": 1}"#);
    let list = |project: &str| {
        let builder = Builder::new(None)
            .variable("MCP_BRIDGE_STATE_DIR", state.path().display().to_string())
            .variable("MCP_BRIDGE_PROJECT", project);
        integration_tests::cli::run(builder, &["memory", "list"], b"").stdout
    };
    assert!(list("off").contains("shared"));
    assert_eq!(list("on"), "no memories\n");
    assert_eq!(
        list(&home.join("home").display().to_string()),
        "no memories\n"
    );
}
