//! MCP servers of the host, used from code in the sandbox: loaded by name, called, cut off by
//! limits and rejected.

use std::path::{Path, PathBuf};

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, each_engine, process, tokens};
use serde_json::{Value, json};

/// The stub server in a place where the user of every engine can start it.
pub(crate) fn stub() -> String {
    std::env::var("TEST_STUB").unwrap_or_else(|_| env!("CARGO_BIN_EXE_stub-server").to_owned())
}

/// Definitions of `git-hub`, which has a few tools, and of `dead`, which does not start.
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

fn code_can_call_servers_of_the_host(engine: &EngineUnderTest) {
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
    // A server that was named once stays loaded until `reset`.
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

fn call_that_names_an_unknown_server_runs_nothing(engine: &EngineUnderTest) {
    let mut bridge = bridge(engine);
    let answer = bridge.call(&json!({"code": "print('ran')", "servers": ["githup"]}));
    answer.failed("validation_error", "no server \"githup\"");
    assert_eq!(answer.stdout(), "");
}

fn server_that_does_not_start_is_reported(engine: &EngineUnderTest) {
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

fn time_limit_cancels_tool_calls(engine: &EngineUnderTest) {
    let mut bridge = bridge(engine);
    let code = "await mcp_git_hub.create_issue(title='kept')\nawait mcp_git_hub.hang()";
    bridge
        .call(&json!({"code": "1", "servers": ["git-hub"]}))
        .succeeded();
    let answer = bridge.call(&json!({"code": code, "timeout": 2}));
    answer.failed("timeout", "variables are kept");
    assert_eq!(
        answer.field("toolCalls"),
        &json!("1 done (git-hub.create-issue), 1 cancelled (git-hub.hang)")
    );
    bridge
        .run("await mcp_git_hub.create_issue(title='next')")
        .succeeded();
}

fn run_command_accepts_servers(engine: &EngineUnderTest) {
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

/// Defines `count` servers that record their starts in one file.
fn many(builder: &Builder<'_>, count: usize) -> (PathBuf, PathBuf) {
    let record = builder.home().write("record/starts", "");
    let scenario =
        json!({ "record": record, "tools": [{"name": "echo", "inputSchema": {"type": "object"}}] });
    let entries: serde_json::Map<String, Value> = (0..count)
        .map(|n| {
            let entry = json!({"command": stub(), "args": [scenario.to_string()]});
            (format!("server-{n}"), entry)
        })
        .collect();
    let file = builder
        .home()
        .write("servers.json", json!({ "mcpServers": entries }).to_string());
    (file, record)
}

fn starts(record: &Path) -> usize {
    let text = std::fs::read_to_string(record).unwrap();
    text.lines()
        .filter(|line| line.starts_with("\"started"))
        .count()
}

/// Servers do not run until they are used, and end with the bridge.
fn defined_servers_do_not_start_until_used(engine: &EngineUnderTest) {
    let builder = Builder::new(Some(engine));
    let (file, record) = many(&builder, 300);
    let mut bridge = builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .start();
    bridge.run("print(len(discovered_servers()))").succeeded();
    assert_eq!(starts(&record), 0, "no server may be started");
    let running = || process::with_command(&record.display().to_string()).len();
    assert_eq!(running(), 0);
    let code = "import asyncio\nawait asyncio.gather(mcp_server_7.echo(), mcp_server_7.echo())";
    bridge
        .call(&json!({"code": code, "servers": ["server-7"]}))
        .succeeded();
    assert_eq!(starts(&record), 1, "one server starts once");
    assert_eq!(running(), 1);
    bridge.finish();
    assert_eq!(running(), 0);
}

/// The tokens of the tool list do not depend on the servers behind the bridge.
fn tool_list_does_not_grow_with_a_thousand_live_tools(engine: &EngineUnderTest) {
    let builder = Builder::new(Some(engine));
    let tools: Vec<Value> = (0..1000)
        .map(|n| json!({"name": format!("tool-{n}"), "description": "Does something that takes some words to say", "inputSchema":
            {"type": "object", "properties": {"first": {"type": "string"}, "second": {"type": "integer"}}}}))
        .collect();
    let scenario = json!({ "tools": tools, "page": 100 }).to_string();
    let scenario = builder.home().write("scenario.json", scenario);
    let entry = json!({"command": stub(), "args": [scenario]});
    let file = builder.home().write(
        "servers.json",
        json!({"mcpServers": {"large": entry}}).to_string(),
    );
    let mut bridge = builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .start();
    let code = "print(len(await query_tool_docs('large')), await mcp_large.tool_999(first='x'))";
    let answer = bridge.call(&json!({"code": code, "servers": ["large"]}));
    assert_eq!(answer.succeeded(), "1000 {'first': 'x'}\n");
    let cost = tokens::count(&bridge.request("tools/list", &json!({})).to_string());
    assert!((50..=200).contains(&cost), "the list costs {cost} tokens");
}

fn result_over_the_cap_fails_only_its_call(engine: &EngineUnderTest) {
    let builder = Builder::new(Some(engine));
    let most = 16 << 20;
    let scenario = json!({
        "tools": [{"name": "most", "inputSchema": {"type": "object"}}, {"name": "more", "inputSchema": {"type": "object"}}],
        "calls": {"most": [[{"big": most}]], "more": [[{"big": 17 << 20}]]},
    });
    let entry = json!({"command": stub(), "args": [scenario.to_string()]});
    let file = builder.home().write(
        "servers.json",
        json!({"mcpServers": {"big": entry}}).to_string(),
    );
    let mut bridge = builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .start();
    let code = "kept = len(await mcp_big.most())\n\
        try:\n    await mcp_big.more()\nexcept MCPError as error:\n    print(kept, type(error).__name__, error)";
    let answer = bridge.call(&json!({"code": code, "servers": ["big"], "timeout": 60}));
    assert_eq!(
        answer.succeeded(),
        format!("{most} MCPError big.more answered with 17 MiB, more than the 16 MiB allowed\n")
    );
    let answer = bridge
        .call(&json!({"code": "print(kept, len(await mcp_big.most()) == kept)", "timeout": 60}));
    assert_eq!(answer.succeeded(), format!("{most} True\n"));
}

each_engine!(
    code_can_call_servers_of_the_host,
    call_that_names_an_unknown_server_runs_nothing,
    server_that_does_not_start_is_reported,
    time_limit_cancels_tool_calls,
    run_command_accepts_servers,
    defined_servers_do_not_start_until_used,
    tool_list_does_not_grow_with_a_thousand_live_tools,
    result_over_the_cap_fails_only_its_call,
);
