//! Runs that outlive their call: by `yield_after`, and as tasks of the protocol.

use super::*;

/// The name of the run in an answer.
fn run_of(result: &Value) -> String {
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(result["structuredContent"]["status"], "running", "{result}");
    let run = result["structuredContent"]["run"].as_str();
    run.expect("a name").to_owned()
}

#[tokio::test(start_paused = true)]
async fn yielded_run_is_read_on_by_later_calls() {
    let mut raw = Raw::opened().await;
    let result = raw
        .call(json!({"code": "ticks", "yield_after": 2.5, "timeout": 3600}))
        .await;
    let run = run_of(&result);
    assert_eq!(
        result["content"][0]["text"],
        format!(
            "status: running\nfor 2 s; call with run={run:?} to wait and read on, with cancel=true too to end it\nstdout:\n0 1 2 "
        )
    );
    let result = raw.call(json!({"run": run, "yield_after": 1})).await;
    assert_eq!(run_of(&result), run);
    assert_eq!(result["structuredContent"]["stdout"], "3 ");
    let result = raw.call(json!({"run": run})).await;
    assert_eq!(
        result["structuredContent"],
        json!({"status": "success", "summary": "success", "stdout": "4 5 6 7 8 9 ", "run": run})
    );
    // The same again, as the answer may have been lost.
    let again = raw.call(json!({"run": run})).await;
    assert_eq!(again["structuredContent"]["stdout"], "0 1 2 3 4 5 6 7 8 9 ");
    let requests = raw.fake.requests.lock().expect("no panic");
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].timeout, Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn run_that_ends_before_yield_after_is_answered_directly() {
    let mut raw = Raw::opened().await;
    let result = raw.call(json!({"code": "1", "yield_after": 5})).await;
    assert_eq!(
        result["structuredContent"],
        json!({"status": "success", "summary": "success", "stdout": "ran 1\n"})
    );
}

#[tokio::test(start_paused = true)]
async fn yielded_run_is_cancelled_by_name() {
    let mut raw = Raw::opened().await;
    let run = run_of(&raw.call(json!({"code": "wait", "yield_after": 0})).await);
    let result = raw.call(json!({"run": run, "cancel": true})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"]["status"], "cancelled");
    assert_eq!(result["structuredContent"]["run"], json!(run));
    let result = raw.call(json!({"run": "nonsense"})).await;
    assert_eq!(result["structuredContent"]["status"], "validation_error");
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_call_that_polls_a_run_does_not_cancel_the_run() {
    let mut raw = Raw::opened().await;
    let run = run_of(&raw.call(json!({"code": "wait", "yield_after": 0})).await);
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "run_python", "arguments": {"run": run}}});
    raw.send(&line.to_string()).await;
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    let result = raw.call(json!({"run": run, "yield_after": 5})).await;
    assert_eq!(run_of(&result), run);
    assert!(
        !raw.fake.requests.lock().expect("no panic")[0]
            .cancel
            .is_cancelled()
    );
}

#[tokio::test(start_paused = true)]
async fn end_of_the_connection_cancels_yielded_runs() {
    let mut raw = Raw::opened().await;
    run_of(&raw.call(json!({"code": "wait", "yield_after": 0})).await);
    raw.input.shutdown().await.expect("shut down");
    raw.connection.await.expect("no panic");
    assert!(
        raw.fake.requests.lock().expect("no panic")[0]
            .cancel
            .is_cancelled()
    );
}

/// A request of the newest protocol revision, from a client with these extensions.
fn request(id: u32, method: &str, mut params: Value, extensions: &Value) -> String {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn tasks_extension() -> Value {
    json!({"io.modelcontextprotocol/tasks": {}})
}

async fn ask(raw: &mut Raw, method: &str, params: Value) -> Value {
    raw.send(&request(9, method, params, &tasks_extension()))
        .await;
    let answer = raw.answer().await;
    assert_eq!(answer["id"], 9);
    answer
}

#[tokio::test(start_paused = true)]
async fn client_that_supports_tasks_gets_one_for_a_long_run() {
    let mut raw = Raw::new();
    let discovered = ask(&mut raw, "server/discover", json!({})).await;
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert!(
        extensions["io.modelcontextprotocol/tasks"].is_object(),
        "{discovered}"
    );
    let call = |code: &str| json!({"name": "run_python", "arguments": {"code": code}});
    let quick = ask(&mut raw, "tools/call", call("1")).await;
    assert_eq!(quick["result"]["structuredContent"]["stdout"], "ran 1\n");

    let created = ask(&mut raw, "tools/call", call("ticks")).await["result"].clone();
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    assert!(
        created["ttlMs"].as_u64().expect("a time") >= 600_000,
        "{created}"
    );
    assert!(
        created["createdAt"]
            .as_str()
            .expect("a time")
            .ends_with('Z'),
        "{created}"
    );
    let task = json!({"taskId": created["taskId"]});
    let working = ask(&mut raw, "tasks/get", task.clone()).await;
    assert_eq!(working["result"]["status"], "working", "{working}");
    let updated = ask(
        &mut raw,
        "tasks/update",
        json!({"taskId": created["taskId"], "inputResponses": {}}),
    )
    .await;
    assert!(updated["result"].is_object(), "{updated}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let ended = ask(&mut raw, "tasks/get", task).await["result"].clone();
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(
        ended["result"]["structuredContent"],
        json!({"status": "success", "summary": "success", "stdout": "0 1 2 3 4 5 6 7 8 9 "})
    );
    assert_eq!(ended["result"]["isError"], false);
}

#[tokio::test(start_paused = true)]
async fn task_can_be_cancelled_and_an_unknown_one_is_an_error() {
    let mut raw = Raw::new();
    let call = json!({"name": "run_python", "arguments": {"code": "wait"}});
    let created = ask(&mut raw, "tools/call", call).await["result"].clone();
    let task = json!({"taskId": created["taskId"]});
    let answer = ask(&mut raw, "tasks/cancel", task.clone()).await;
    assert!(answer["result"].is_object(), "{answer}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ended = ask(&mut raw, "tasks/get", task).await;
    assert_eq!(ended["result"]["status"], "cancelled", "{ended}");
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = json!({"taskId": "none", "inputResponses": {}});
        let answer = ask(&mut raw, method, params).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn client_without_task_support_gets_an_answer() {
    let mut raw = Raw::new();
    let call = json!({"name": "run_python", "arguments": {"code": "ticks"}});
    raw.send(&request(1, "tools/call", call, &json!({}))).await;
    let answer = raw.answer().await;
    assert_eq!(
        answer["result"]["structuredContent"]["status"], "success",
        "{answer}"
    );
    raw.send(&request(2, "tasks/get", json!({"taskId": "x"}), &json!({})))
        .await;
    let answer = raw.answer().await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn call_with_yield_after_does_not_become_a_task() {
    let mut raw = Raw::new();
    let call = json!({"name": "run_python", "arguments": {"code": "ticks", "yield_after": 4}});
    let answer = ask(&mut raw, "tools/call", call).await;
    run_of(&answer["result"]);
}
