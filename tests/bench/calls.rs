//! Tool calls from code in the guest, in turns with the same calls by the official Python SDK
//! straight to the same server, and the cost of servers that are defined but not used.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use bridge_catalog::{SearchPaths, Watcher};
use integration_tests::EngineUnderTest;
use integration_tests::bridge::{self, Builder};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::measure::{Series, answered, bridge_run, median};

/// What both sides print: the seconds of each call, of a thousand calls at once, and of fifty calls
/// that take 100 ms each.
#[derive(Deserialize)]
struct Told {
    single: Vec<f64>,
    many: f64,
    slow: f64,
}

/// The figures of one side.
pub(crate) struct Side {
    pub(crate) single: Series,
    pub(crate) many_a_second: f64,
    pub(crate) slow_ms: f64,
}

const CODE: &str = r"
import asyncio, json, time
async def one():
    begun = time.perf_counter()
    await mcp_stub.echo(n=1)
    return time.perf_counter() - begun
async def all_at_once(tool, count):
    begun = time.perf_counter()
    await asyncio.gather(*(tool(n=n) for n in range(count)))
    return time.perf_counter() - begun
for _ in range(50):
    await one()
single = [await one() for _ in range(CALLS)]
print(json.dumps({'single': single, 'many': await all_at_once(mcp_stub.echo, 1000), 'slow': await all_at_once(mcp_stub.slow, 50)}))
";

fn stub() -> PathBuf {
    std::env::var_os("TEST_STUB").map_or_else(
        || bridge::binary().with_file_name("stub-server"),
        PathBuf::from,
    )
}

fn scenario() -> String {
    let number = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    json!({
        "tools": [{"name": "echo", "inputSchema": number}, {"name": "slow", "inputSchema": number}],
        "calls": {"slow": [[{"sleep_ms": 100}, "echo"]]},
    })
    .to_string()
}

/// Measures the bridge and the SDK.
pub(crate) fn sides(engine: &EngineUnderTest, rounds: usize, calls: usize) -> (Side, Side) {
    let builder = Builder::new(Some(engine));
    let definition = json!({"mcpServers": {"stub": {"command": stub(), "args": [scenario()]}}});
    let file = builder.home().write("servers.json", definition.to_string());
    let mut bridge = builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .start();
    bridge
        .call(&json!({"code": "pass", "servers": ["stub"]}))
        .succeeded();
    let code = CODE.replace("CALLS", &calls.to_string());
    let (mut through, mut straight) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let answer = bridge.call(&json!({"code": code, "timeout": 60}));
        through.push(told(answer.succeeded()));
        straight.push(told(&by_sdk(calls)));
    }
    (side(through), side(straight))
}

fn by_sdk(calls: usize) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let python =
        std::env::var("TEST_PYTHON").unwrap_or_else(|_| format!("{folder}/.cache/venv/bin/python"));
    let output = Command::new(python)
        .args([
            "-B",
            &format!("{folder}/sdk/calls_bench.py"),
            &calls.to_string(),
            "--",
        ])
        .arg(stub())
        .arg(scenario())
        .output()
        .expect("the tests' Python can be started");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(text: &str) -> Told {
    serde_json::from_str(text).expect("both sides print JSON")
}

fn side(told: Vec<Told>) -> Side {
    let time = Duration::from_secs_f64;
    let many = median(told.iter().map(|told| time(told.many)).collect());
    let slow_ms = median(told.iter().map(|told| time(told.slow)).collect());
    let single = told
        .into_iter()
        .flat_map(|told| told.single)
        .map(time)
        .collect();
    Side {
        single: Series::of(single),
        many_a_second: 1000.0 * 1e3 / many,
        slow_ms,
    }
}

/// Milliseconds to the answer to `initialize`, or with an engine to the output of a cold run, with
/// 300 and with 3 servers defined. Both are prepared beforehand and go first in turns.
pub(crate) fn defined(engine: Option<&EngineUnderTest>, rounds: usize) -> [f64; 2] {
    let mut series: [Vec<Duration>; 2] = Default::default();
    for round in 0..rounds {
        let mut turns = [(0, 300), (1, 3)].map(|(side, count)| {
            let builder = Builder::new(engine);
            let file = builder.home().write("servers.json", many(count));
            settle(&file);
            (
                side,
                builder.variable("MCP_SERVERS_CONFIG", file.display().to_string()),
            )
        });
        turns.rotate_left(round % 2);
        for (side, builder) in turns {
            series[side].push(match engine {
                Some(_) => bridge_run(builder).0,
                None => answered(builder),
            });
        }
    }
    series.map(median)
}

/// Makes a definition file look old: a file that was written a moment ago is read again each time.
fn settle(file: &Path) {
    let file = File::options().write(true).open(file);
    let hour = Duration::from_secs(3600);
    file.and_then(|file| file.set_modified(SystemTime::now() - hour))
        .expect("a file of one's own can be dated back");
}

/// Milliseconds that each run spends on checking whether a definition file has changed.
pub(crate) fn look(rounds: usize) -> f64 {
    let home = integration_tests::Home::new(None);
    let file = home.write("servers.json", many(300));
    settle(&file);
    let variables = std::env::vars().collect();
    let search_paths = SearchPaths {
        extra: Some(file),
        ..SearchPaths::new(
            home.join("home"),
            home.join("home"),
            home.join("state/MCPs"),
            variables,
        )
    };
    let watcher = Watcher::new(search_paths);
    watcher.current();
    let once = || {
        let begun = Instant::now();
        watcher.current();
        begun.elapsed()
    };
    median((0..rounds).map(|_| once()).collect())
}

fn many(count: usize) -> String {
    let entries: Map<String, Value> = (0..count)
        .map(|number| (format!("server-{number}"), json!({"command": stub(), "args": [number.to_string()], "env": {"TOKEN": format!("secret-token-{number}")}})))
        .collect();
    json!({ "mcpServers": entries }).to_string()
}
