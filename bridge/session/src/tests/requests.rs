//! What guests ask of the host: servers given to a run, calls answered, cut off and refused.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use bridge_wire::testing as wire;

use super::super::{Error, Launch, RunOutcome, RunRequest, Sessions, State, Status};
use super::scripted::{Puppet, Stage};
use super::{broker, call, limits, sessions, settings, silent};

/// A server with two tools: one answers with its arguments, the other never.
const TOY: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "toy", "version": "1"}}
        case "tools/list":
            answer["result"] = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "hang")]}
        case "tools/call":
            if message["params"]["name"] == "hang":
                continue
            answer["result"] = {"content": [], "structuredContent": message["params"]["arguments"]}
        case _:
            answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;

/// Sessions over the servers `toy` and `dead`. The folder holds their definitions.
fn with_servers(stage: &Arc<Stage>) -> (Arc<Sessions>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let python = |source: &str| json!({"command": "python3", "args": ["-c", source]});
    let servers = json!({"toy": python(TOY), "dead": python("import sys; sys.exit('no token')")});
    std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
    let launch = Arc::clone(stage) as Arc<dyn Launch>;
    let sessions = Sessions::with(launch, broker(Some(file)), limits(), settings());
    (Arc::new(sessions), folder)
}

fn using(servers: &[&str], code: &str) -> RunRequest {
    RunRequest {
        servers: servers.iter().map(|name| (*name).to_owned()).collect(),
        ..call(code)
    }
}

fn request(number: u64, tool: &str, arguments: &Value) -> Value {
    let params = json!({"server": "toy", "tool": tool, "arguments": arguments});
    wire::request(number, "call_tool", Some(params))
}

/// Prints each `execute` frame, then calls `echo` and prints the answer. Code `hang` then calls
/// `hang` and waits for the interrupt; code `leave` calls it and is done.
async fn caller(mut puppet: Puppet) {
    puppet.ready().await;
    let mut number = 0;
    loop {
        let frame = puppet.receive().await;
        if frame["type"] != "execute" {
            continue;
        }
        print(&puppet, &frame).await;
        number += 1;
        puppet
            .say(request(number, "echo", &json!({"n": number})))
            .await;
        let answer = puppet_answer(&mut puppet).await;
        print(&puppet, &answer).await;
        if frame["code"] != "echo" {
            number += 1;
            puppet.say(request(number, "hang", &json!({}))).await;
        }
        if frame["code"] == "hang" {
            while puppet.receive().await["type"] != "interrupt" {}
            puppet
                .say(json!({"type": "execution_done", "id": frame["id"], "status": "interrupted"}))
                .await;
        } else {
            puppet.done(&frame["id"]).await;
        }
    }
}

async fn puppet_answer(puppet: &mut Puppet) -> Value {
    loop {
        let frame = puppet.receive().await;
        if wire::is_response(&frame) {
            return frame;
        }
    }
}

async fn print(puppet: &Puppet, value: &Value) {
    puppet
        .say(json!({"type": "stdout", "data": format!("{value}\n")}))
        .await;
}

fn printed(outcome: &RunOutcome) -> Vec<Value> {
    let lines = outcome.output.stdout.bytes.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_server_is_announced_once_and_its_calls_are_answered() {
    let stage = Stage::new(caller);
    let (sessions, _folder) = with_servers(&stage);
    let run = async |request| sessions.run(request, silent()).await.unwrap();

    let first = run(using(&["toy"], "echo")).await;
    let [execute, answer] = &printed(&first)[..] else {
        panic!("{first:?}")
    };
    assert_eq!(execute["servers"][0]["name"], "toy");
    assert_eq!(execute["known"], json!(["dead"]));
    assert_eq!(answer["payload"]["structuredContent"], json!({"n": 1}));
    assert_eq!(
        (first.identity.servers, first.calls.to_string()),
        (vec!["toy".to_owned()], "1 done (toy.echo)".to_owned())
    );

    let second = run(call("echo")).await;
    let [execute, answer] = &printed(&second)[..] else {
        panic!("{second:?}")
    };
    assert_eq!(execute.get("servers"), None);
    assert_eq!(answer["payload"]["structuredContent"], json!({"n": 2}));

    let reset = run(RunRequest {
        reset: true,
        ..call("echo")
    })
    .await;
    assert_eq!(reset.identity.servers, Vec::<String>::new());
    assert_eq!(
        printed(&reset)[1]["error"]["message"],
        "mcp_toy: server \"toy\" is known but not loaded; call run_python with servers=[\"toy\"]"
    );
}

#[tokio::test]
async fn a_name_that_nobody_knows_runs_nothing() {
    let stage = Stage::new(caller);
    let (sessions, _folder) = with_servers(&stage);
    let refused = sessions
        .run(using(&["toy", "jirra"], "echo"), silent())
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Servers(message) if message.starts_with("no server \"jirra\"")),
        "{refused}"
    );
    let next = sessions.run(call("echo"), silent()).await.unwrap();
    assert_eq!(printed(&next)[0]["id"], 1);
    assert_eq!(next.identity.servers, Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_does_not_start_costs_only_itself() {
    let stage = Stage::new(caller);
    let (sessions, _folder) = with_servers(&stage);
    let outcome = sessions
        .run(using(&["toy", "dead"], "echo"), silent())
        .await
        .unwrap();
    assert_eq!(outcome.status(), Status::Success);
    assert_eq!(outcome.identity.servers, ["toy"]);
    let note = outcome.note().clone().unwrap();
    assert!(note.contains("dead") && note.contains("no token"), "{note}");
    let failed = &printed(&outcome)[0]["failed"][0];
    assert_eq!(failed["name"], "dead");
    assert_eq!(failed["message"], note.as_str());
}

#[tokio::test]
async fn what_became_of_calls_is_told_when_a_run_ends_early() {
    let stage = Stage::new(caller);
    let (sessions, _folder) = with_servers(&stage);
    // Brings the server up, so that the time limit below is that of the calls.
    sessions
        .run(using(&["toy"], "echo"), silent())
        .await
        .unwrap();
    let late = RunRequest {
        timeout: Duration::from_secs(2),
        ..call("hang")
    };
    let outcome = sessions.run(late, silent()).await.unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Kept)
    );
    assert_eq!(
        outcome.calls.to_string(),
        "1 done (toy.echo), 1 cancelled (toy.hang)"
    );
    // Nobody waits for it, but it may have had effects, if it has begun.
    let outcome = sessions.run(call("leave"), silent()).await.unwrap();
    assert_eq!(outcome.status(), Status::Success);
    let calls = outcome.calls.to_string();
    assert!(calls.starts_with("1 done (toy.echo), 1 "), "{calls}");
}

#[tokio::test(start_paused = true)]
async fn requests_between_runs_are_refused() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let first = puppet.receive().await;
        puppet.done(&first["id"]).await;
        puppet.say(request(5, "echo", &json!({}))).await;
        let refusal = puppet_answer(&mut puppet).await;
        let second = puppet.receive().await;
        print(&puppet, &refusal).await;
        puppet.done(&second["id"]).await;
        puppet.hold().await;
    });
    let sessions = sessions(&stage);
    sessions.run(call("1"), silent()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = sessions.run(call("2"), silent()).await.unwrap();
    assert_eq!(
        printed(&second),
        [wire::refusal(5, "MCPError", "no run is active")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_asks_without_end_and_never_reads_is_killed() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        puppet.receive().await;
        let bad = wire::request(1, "x", None);
        for _ in 0..20_000 {
            puppet
                .write(
                    bad.to_string()
                        .replace("\"x\"", "\"x\",\"params\":\"\\ud800\"")
                        + "\n",
                )
                .await;
        }
        puppet.hold().await;
    });
    let sessions = sessions(&stage);
    let outcome = sessions.run(call("1"), silent()).await.unwrap();
    assert_eq!(outcome.state(), State::Lost);
    assert_eq!(outcome.error().unwrap().kind, "protocol");
}
