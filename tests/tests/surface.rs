//! What an MCP client sees besides the answers to its code.

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, each_engine, limit, sdk, tokens};
use serde_json::{Value, json};

const CAPABILITIES: &str = "resource://mcp-server-code-execution-mode/capabilities";

/// A bridge that cannot find an engine: neither a socket nor a program.
fn without_engine() -> Bridge {
    Builder::new(None).variable("PATH", "/nowhere").start()
}

#[test]
fn initialize_answers_in_every_revision() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut bridge = Builder::new(None).variable("PATH", "/nowhere").spawn();
        let answer = bridge.initialize(version);
        assert_eq!(answer["protocolVersion"], version);
        assert_eq!(answer["serverInfo"]["name"], "mcp-code-bridge");
        assert!(answer["capabilities"]["tools"].is_object(), "{answer:#}");
        bridge.finish();
    }
}

#[test]
fn discover_answers_without_a_handshake() {
    let mut bridge = Builder::new(None).variable("PATH", "/nowhere").spawn();
    let answer = bridge.request("server/discover", &modern(json!({})));
    let versions = answer["supportedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(versions.contains(&json!("2026-07-28")), "{answer:#}");
    let tools = bridge.request("tools/list", &modern(json!({})));
    assert_eq!(tools["tools"][0]["name"], "run_python");
    assert!(
        tools["ttlMs"].is_number() && tools["cacheScope"].is_string(),
        "clients drop lists without them: {tools:#}"
    );
    bridge.finish();
}

/// Adds the metadata that revision 2026-07-28 requires: each request names its client and revision.
fn modern(mut parameters: Value) -> Value {
    parameters["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    parameters
}

#[test]
fn one_small_tool_is_listed_without_an_engine() {
    let mut bridge = without_engine();
    let list = bridge.request("tools/list", &json!({}));
    let tools = list["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1, "{list:#}");
    let tool = &tools[0];
    assert_eq!(tool["name"], "run_python");
    let schema = &tool["inputSchema"];
    assert!(
        schema["required"].is_null(),
        "run goes without code: {schema:#}"
    );
    for (name, kind) in [
        ("code", "string"),
        ("timeout", "integer"),
        ("session", "string"),
        ("reset", "boolean"),
        ("yield_after", "number"),
        ("run", "string"),
        ("cancel", "boolean"),
    ] {
        let found = &schema["properties"][name]["type"];
        let as_list = found
            .as_array()
            .is_some_and(|kinds| kinds.contains(&json!(kind)));
        assert!(
            *found == json!(kind) || as_list,
            "{name} is a {kind}: {schema:#}"
        );
    }
    bridge.finish();
}

#[test]
fn tool_list_costs_at_most_200_tokens_with_many_servers() {
    for servers in [1, 300] {
        let builder = Builder::new(None).variable("PATH", "/nowhere");
        let entries: serde_json::Map<String, Value> = (0..servers)
            .map(|n| (format!("server-{n}"), json!({"command": "/nowhere/server"})))
            .collect();
        let file = builder
            .home()
            .write("servers.json", json!({ "mcpServers": entries }).to_string());
        let mut bridge = builder
            .variable("MCP_SERVERS_CONFIG", file.display().to_string())
            .start();
        let list = bridge.request("tools/list", &json!({}));
        let cost = tokens::count(&list.to_string());
        assert!(
            (50..=200).contains(&cost),
            "with {servers} servers the list costs {cost} tokens"
        );
        bridge.finish();
    }
}

#[test]
fn capabilities_are_a_resource() {
    let mut bridge = without_engine();
    let list = bridge.request("resources/list", &json!({}));
    assert_eq!(list["resources"][0]["uri"], CAPABILITIES, "{list:#}");
    assert_eq!(list["resources"][0]["name"], "code-execution-capabilities");
    let read = bridge.request("resources/read", &json!({"uri": CAPABILITIES}));
    let content = &read["contents"][0];
    assert_eq!(content["mimeType"], "text/markdown");
    assert!(
        content["text"].as_str().unwrap().contains("run_python"),
        "{content:#}"
    );
    bridge.finish();
}

#[test]
fn error_without_an_engine_names_what_was_tried() {
    let mut bridge = without_engine();
    let answer = bridge.run("print(1)");
    answer.failed("error", "no container engine");
    assert!(
        answer.text().contains("doctor"),
        "the way out is named: {}",
        answer.text()
    );
    bridge.finish();
}

/// Wrong arguments, and a text that the answer must hold. All are rejected without an engine.
fn wrong_arguments() -> Vec<(Value, &'static str)> {
    vec![
        (json!({}), "code"),
        (json!({"code": 7}), "code"),
        (json!({"code": ""}), "code"),
        (json!({"code": " \n\t\n"}), "code"),
        (json!({"code": "print(1)\u{0}"}), "NUL"),
        (json!({"code": "1", "timeout": 0}), "timeout"),
        (json!({"code": "1", "timeout": -1}), "timeout"),
        (json!({"code": "1", "timeout": 1.5}), "timeout"),
        (
            json!({"code": "1", "timeout": 100_000_000_000_u64}),
            "timeout",
        ),
        (json!({"code": "1", "timeout": "soon"}), "timeout"),
        (json!({"code": "1", "session": ""}), "session"),
        (
            json!({"code": "1", "session": "a".repeat(10_000)}),
            "session",
        ),
        (json!({"code": "1", "session": "../../x\n"}), "session"),
        (json!({"code": "1", "session": 4}), "session"),
        (json!({"code": "1", "reset": "perhaps"}), "reset"),
        (json!({"code": "1", "yield_after": -1}), "yield_after"),
        (json!({"code": "1", "yield_after": "soon"}), "yield_after"),
        (json!({"code": "1", "run": "a"}), "run"),
        (json!({"run": 7}), "run"),
        (json!({"run": "a".repeat(10_000)}), "run"),
        (json!({"run": "nonsense"}), "no run"),
        (json!({"run": "last"}), "no run"),
        (json!({"code": "1", "cancel": true}), "cancel"),
    ]
}

#[test]
fn wrong_arguments_are_named() {
    let mut bridge = without_engine();
    for (arguments, word) in wrong_arguments() {
        let id = bridge.ask_run(&arguments);
        let response = bridge.response(id, limit(10));
        let text = response.to_string();
        let refused =
            response.get("error").is_some() || response["result"]["isError"] == json!(true);
        assert!(
            refused && text.contains(word),
            "{arguments:.200} is refused, naming {word}: {text:.600}"
        );
        let structured = &response["result"]["structuredContent"]["status"];
        assert!(
            structured.is_null() || structured == "validation_error",
            "{arguments:.200}: {text:.600}"
        );
    }
    bridge.finish();
}

#[test]
fn unknown_methods_and_tools_are_errors() {
    let mut bridge = without_engine();
    let id = bridge.ask(
        "tools/call",
        &json!({"name": "run_perl", "arguments": {"code": "1"}}),
    );
    let response = bridge.response(id, limit(5));
    assert!(
        response.get("error").is_some() || response["result"]["isError"] == json!(true),
        "{response:#}"
    );
    let id = bridge.ask("no/such/method", &json!({}));
    assert_eq!(bridge.response(id, limit(5))["error"]["code"], -32601);
    bridge.request("ping", &json!({}));
    bridge.finish();
}

fn guest_and_resource_give_the_same_manual(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let read = bridge.request("resources/read", &json!({"uri": CAPABILITIES}));
    let answer = bridge.run("print(capability_summary(), end='')");
    let (manual, limits) = (answer.succeeded(), &read["contents"][0]["text"]);
    assert!(
        manual.starts_with("# run_python\n"),
        "it is the manual: {manual}"
    );
    let limits = limits.as_str().unwrap().strip_prefix(manual);
    assert!(
        limits.is_some_and(|limits| limits.starts_with("\nLimits: ")),
        "the manual, then the limits: {read:#}"
    );
    bridge.finish();
}

fn first_cell_runs(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let answer = bridge.run("print('hello')\n6 * 7");
    assert_eq!(answer.succeeded(), "hello\n");
    assert_eq!(
        answer.text().trim_end(),
        "hello\n42",
        "output is the answer"
    );
    let pid = bridge.pid();
    assert!(
        !engine.containers_of(pid).is_empty(),
        "it ran in a container that carries its owner"
    );
    bridge.finish();
    engine.assert_nothing_left_of(pid);
}

fn heavy_official_python_client(engine: &EngineUnderTest) {
    for mode in ["auto", "legacy"] {
        let arguments = ["--mode", mode, "--engine", &engine.address];
        let told = sdk::job(Builder::new(Some(engine)), "main_job.py", &arguments);
        assert!(told.contains(" 0 failed"), "{told}");
    }
}

each_engine!(
    first_cell_runs,
    guest_and_resource_give_the_same_manual,
    heavy_official_python_client,
);
