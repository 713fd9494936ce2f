//! Any JSON value is unchanged after a round trip from the guest to a server and back.

use std::cell::RefCell;
use std::fmt::Write as _;

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, Kind, each_engine, engine};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use crate::servers::stub;

/// Code that the guest runs first. Two values are the same if Python writes them the same way,
/// which distinguishes 1 from 1.0 and True, 0.0 from -0.0, and the order of keys.
const PRELUDE: &str = r"
import json
async def there_and_back(text):
    value = json.loads(text)
    back = (await mcp_echo.echo(v=value))['v']
    assert repr(back) == repr(value), (repr(value)[:200], repr(back)[:200])
";

fn bridge(engine: &EngineUnderTest) -> Bridge {
    let builder = Builder::new(Some(engine));
    let surrogate = json!({"raw": "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"structuredContent\":{\"v\":\"\\ud800\"}}}\n"});
    let huge = json!({"raw": "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"structuredContent\":{\"v\":[1e400,-0.0,1.0,12345678901234567890123]}}}\n"});
    let schema = json!({"type": "object", "properties": {"v": {}}});
    let scenario = json!({
        "tools": [
            {"name": "echo", "inputSchema": schema}, {"name": "surrogate", "inputSchema": schema}, {"name": "huge", "inputSchema": schema},
        ],
        "calls": {"surrogate": [[surrogate]], "huge": [[huge]]},
    });
    let definition =
        json!({"mcpServers": {"echo": {"command": stub(), "args": [scenario.to_string()]}}});
    let file = builder.home().write("servers.json", definition.to_string());
    let mut bridge = builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .start();
    bridge
        .call(&json!({"code": PRELUDE, "servers": ["echo"]}))
        .succeeded();
    bridge
}

/// JSON numbers, including those that no Rust type can hold.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(|number| format!("{number:?}")),
        "-?[1-9][0-9]{1,400}",
        prop::sample::select(vec![
            "0",
            "-0",
            "-0.0",
            "1.0",
            "1E5",
            "1e-400",
            "5e-324",
            "1.7976931348623157e308",
            "9007199254740993"
        ])
        .prop_map(str::to_owned),
    ]
}

/// JSON values as text.
fn value() -> impl Strategy<Value = String> {
    let quoted = |text: String| serde_json::Value::from(text).to_string();
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false", "\"\"", "[]", "{}"])
            .prop_map(str::to_owned),
        number(),
        any::<String>().prop_map(quoted),
        "\\PC{0,40}".prop_map(quoted),
    ];
    leaf.prop_recursive(6, 40, 6, move |inner| {
        let list = prop::collection::vec(inner.clone(), 0..6)
            .prop_map(|items| format!("[{}]", items.join(",")));
        // Keys keep their order; a duplicate key is a single one in Python already.
        let object =
            prop::collection::vec((any::<String>(), inner), 0..6).prop_map(move |fields| {
                let fields: Vec<String> = fields
                    .into_iter()
                    .map(|(key, value)| format!("{}:{value}", quoted(key)))
                    .collect();
                format!("{{{}}}", fields.join(","))
            });
        prop_oneof![list, object]
    })
}

#[test]
fn any_value_survives_heavy() {
    engine::with_shared(Kind::Docker, module_path!(), |engine| {
        let bridge = RefCell::new(bridge(engine));
        let mut runner = TestRunner::new(Config {
            cases: 40,
            failure_persistence: None,
            ..Config::default()
        });
        let survived = runner.run(&prop::collection::vec(value(), 1..30), |values| {
            let mut code = String::new();
            for value in &values {
                let _ = writeln!(code, "await there_and_back({})", json!(value));
            }
            let answer = bridge.borrow_mut().call(&json!({"code": code}));
            prop_assert_eq!(answer.status(), "success", "{}", answer.text());
            Ok(())
        });
        if let Err(error) = survived {
            panic!("{error}");
        }
    });
}

/// Depth is limited, and values that are not JSON are rejected in the guest; the session goes on.
fn value_that_cannot_pass_is_a_typed_error(engine: &EngineUnderTest) {
    let mut bridge = bridge(engine);
    let answer = bridge.run(
        r"
await there_and_back('[' * 90 + ']' * 90)
deep = []
for _ in range(5000):
    deep = [deep]
for wrong in (float('inf'), float('nan'), '\ud800', {'\udfff': 1}, b'x', deep):
    try:
        await mcp_echo.echo(v=wrong)
    except TypeError as error:
        print(type(error).__name__, str(error).splitlines()[0][:60])
print(await mcp_echo.huge())
try:
    print(ascii(await mcp_echo.surrogate()))
except MCPError as error:
    print('MCPError')
await there_and_back('1')
",
    );
    let output = answer.succeeded();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 8, "{output}");
    assert!(
        lines[..6].iter().all(|line| line.starts_with("TypeError ")),
        "{output}"
    );
    assert_eq!(lines[6], "{'v': [inf, -0.0, 1.0, 12345678901234567890123]}");
    assert_eq!(lines[7], r"{'v': '\ud800'}");
}

each_engine!(value_that_cannot_pass_is_a_typed_error);
