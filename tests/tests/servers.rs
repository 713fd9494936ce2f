//! MCP servers of the host as code in the sandbox has them: named once, called, cut off, refused.

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, each_engine, limit};
use serde_json::{Value, json};

/// Where the user of every engine can start it.
fn stub() -> String {
    std::env::var("TEST_STUB").unwrap_or_else(|_| env!("CARGO_BIN_EXE_stub-server").to_owned())
}

/// Servers: `git-hub` with a few tools, and `dead`, which does not start.
fn servers() -> Value {
    let title = json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
    let scenario = json!({
        "tools": [
            {"name": "create-issue", "description": "Create a new issue", "inputSchema": title},
            {"name": "big", "inputSchema": {"type": "object"}},
            {"name": "hang", "inputSchema": {"type": "object"}},
        ],
        "calls": {
            "create-issue": [["echo"]],
            "big": [[{"big": 15 << 20}]],
            "hang": [["until_cancelled"]],
        },
    });
    json!({"mcpServers": {
        "git-hub": {"command": stub(), "args": [scenario.to_string()]},
        "dead": {"command": stub(), "args": [json!({"greeting": [{"stderr": "DEAD_TOKEN is not set\n"}, {"exit": 1}]}).to_string()]},
    }})
}

fn builder(engine: &EngineUnderTest) -> Builder<'_> {
    let builder = Builder::new(Some(engine));
    let file = builder.home().write("servers.json", servers().to_string());
    builder.variable("MCP_SERVERS_CONFIG", file.display().to_string())
}

fn bridge(engine: &EngineUnderTest) -> Bridge {
    builder(engine).start()
}

fn code_calls_servers_of_the_host(engine: &EngineUnderTest) {
    let mut bridge = bridge(engine);
    let code = "import asyncio\n\
        calls = [mcp_git_hub.create_issue(title=f'issue {n}') for n in range(20)]\n\
        print([result['title'] for result in await asyncio.gather(*calls)][-1])\n\
        print(len(await mcp_git_hub.big()))\n\
        print(await search_tool_docs('issue'))";
    let answer = bridge.call(&json!({"code": code, "servers": ["git-hub"]}));
    let output = answer.succeeded();
    let expected = format!("issue 19\n{}\n", 15 << 20);
    assert!(
        output.starts_with(&expected) && output.contains("create_issue"),
        "{output}"
    );
    assert_eq!(answer.field("servers"), &json!(["git-hub"]));
    // Named once, it stays; `reset` takes it away.
    assert_eq!(
        bridge
            .run("print(await mcp_git_hub.create_issue(title='again'))")
            .succeeded(),
        "{'title': 'again'}\n"
    );
    let answer =
        bridge.call(&json!({"code": "await mcp_git_hub.create_issue(title='x')", "reset": true}));
    answer.failed("error", "call run_python with servers=[\"git-hub\"]");
}

fn a_server_that_nobody_knows_runs_nothing(engine: &EngineUnderTest) {
    let mut bridge = bridge(engine);
    let answer = bridge.call(&json!({"code": "print('ran')", "servers": ["githup"]}));
    answer.failed("validation_error", "no server \"githup\"");
    assert_eq!(answer.stdout(), "");
}

fn a_server_that_does_not_start_is_told(engine: &EngineUnderTest) {
    let mut bridge = bridge(engine);
    let answer = bridge.call(&json!({"code": "print('ran')", "servers": ["dead"]}));
    assert_eq!(answer.succeeded(), "ran\n");
    assert!(
        answer.text().contains("DEAD_TOKEN is not set"),
        "{}",
        answer.text()
    );
    for code in [
        "await mcp_dead.x()",
        "mcp_servers['dead']",
        "from mcp.servers.dead import x",
    ] {
        let answer = bridge.run(code);
        answer.failed("error", "MCPError: server \"dead\" did not start");
        answer.failed("error", "DEAD_TOKEN is not set");
    }
}

fn a_time_limit_cancels_calls(engine: &EngineUnderTest) {
    let mut bridge = bridge(engine);
    let code = "await mcp_git_hub.create_issue(title='kept')\nawait mcp_git_hub.hang()";
    bridge
        .call(&json!({"code": "1", "servers": ["git-hub"]}))
        .succeeded();
    let answer = bridge.call(&json!({"code": code, "timeout": 2}));
    answer.failed("timeout", "variables are kept");
    assert_eq!(
        answer.field("toolCalls"),
        &json!("1 done: git-hub.create_issue; 1 cancelled: git-hub.hang")
    );
    bridge
        .run("await mcp_git_hub.create_issue(title='next')")
        .succeeded();
}

fn run_takes_servers(engine: &EngineUnderTest) {
    let code = "print((await mcp_git_hub.create_issue(title='cli'))['title'])";
    let mut builder = builder(engine);
    for argument in ["run", "--server", "git-hub", "-c", code] {
        builder = builder.argument(argument);
    }
    let (mut command, _home) = builder.command();
    let output = command.output().unwrap();
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).as_ref()
        ),
        (Some(0), "cli\n"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Nothing of the servers runs until it is asked for, and all of it ends with the bridge.
#[test]
fn servers_that_are_defined_cost_nothing() {
    let builder = Builder::new(None).variable("PATH", "/nowhere");
    let record = builder.home().join("record");
    let scenario = json!({ "record": record });
    let entries: serde_json::Map<String, Value> = (0..300)
        .map(|n| {
            let entry = json!({"command": stub(), "args": [scenario.to_string()]});
            (format!("server-{n}"), entry)
        })
        .collect();
    let file = builder
        .home()
        .write("servers.json", json!({ "mcpServers": entries }).to_string());
    let mut bridge = builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .spawn();
    let id = bridge.ask("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "0"}}));
    bridge.response(id, limit(10));
    bridge.finish();
    assert!(!record.exists(), "no server was started");
}

each_engine!(
    code_calls_servers_of_the_host,
    a_server_that_nobody_knows_runs_nothing,
    a_server_that_does_not_start_is_told,
    a_time_limit_cancels_calls,
    run_takes_servers,
);
