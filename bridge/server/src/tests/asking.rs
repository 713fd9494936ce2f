//! Servers that ask while code runs, as the client sees it: with and without a handshake, answered,
//! rejected, cancelled and ignored.

use tokio_util::sync::CancellationToken;

use super::*;
use bridge_upstream::{Event, Question, QuestionKind};

/// The question that a run of the fake asks when its code is `ask`.
pub(super) fn question(cancel: CancellationToken) -> Question {
    Question {
        server: "github".into(),
        tool: Some("create_issue".to_owned()),
        kind: QuestionKind::Elicitation,
        params: json!({"message": "Sure?", "requestedSchema": {"type": "object", "properties": {"z": {}, "a": {}}}}),
        cancel,
    }
}

/// A report of a server in a run of the fake.
pub(super) fn report(done: u32) -> Event {
    Event::Progress {
        server: "github".into(),
        tool: "create_issue".to_owned(),
        params: json!({"progress": done, "total": 4, "message": format!("step {done}\u{1b}[2J")}),
    }
}

const MESSAGE: &str = "MCP server \"github\" (tool create_issue) asks:\n\nSure?";

impl Raw {
    async fn opened_with(capabilities: Value) -> Self {
        let mut raw = Self::new();
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
        raw.send(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
                .to_string(),
        )
        .await;
        raw.answer().await;
        raw.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        raw
    }

    async fn begin(&mut self, code: &str) {
        let line = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call",
            "params": {"name": "run_python", "arguments": {"code": code}}});
        self.send(&line.to_string()).await;
    }

    /// Answers the next message, which must be a request of the server, and returns it.
    async fn respond(&mut self, answer: Value) -> Value {
        let asked = self.answer().await;
        let mut message = json!({"jsonrpc": "2.0", "id": asked["id"]});
        for (key, value) in answer.as_object().expect("an object") {
            message[key] = value.clone();
        }
        self.send(&message.to_string()).await;
        asked
    }

    async fn printed(&mut self) -> String {
        let answer = self.answer().await;
        assert_eq!(answer["id"], 5, "{answer}");
        answer["result"]["structuredContent"]["stdout"]
            .as_str()
            .expect("a run")
            .to_owned()
    }

    /// Makes a call without a handshake and returns its result.
    async fn modern(&mut self, id: u32, capabilities: &Value, params: Value) -> Value {
        let mut params = params;
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.send(&request.to_string()).await;
        let answer = self.answer().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }
}

fn code(code: &str) -> Value {
    json!({"name": "run_python", "arguments": {"code": code}})
}

#[tokio::test]
async fn question_reaches_a_client_that_declared_elicitation() {
    let mut raw = Raw::opened_with(json!({"elicitation": {}})).await;
    for (answer, printed) in [
        (
            json!({"result": {"action": "accept", "content": {"z": 123_456_789_012_345_678_901_234_567_890_u128.to_string()}}}),
            r#"Accept(Object {"z": String("123456789012345678901234567890")})"#,
        ),
        (json!({"result": {"action": "decline"}}), "Decline"),
        (json!({"result": {"action": "cancel"}}), "Cancel"),
        (
            json!({"error": {"code": -32601, "message": "what?"}}),
            r#"Unsupported("it answered -32601 (what?)")"#,
        ),
        (
            json!({"error": {"code": -32000, "message": "broken", "data": 1}}),
            r#"Failed(RpcError { code: -32000, message: "broken", data: Number(1) })"#,
        ),
    ] {
        raw.begin("ask").await;
        let asked = raw.respond(answer).await;
        assert_eq!(asked["method"], "elicitation/create");
        assert_eq!(asked["params"]["message"], MESSAGE);
        let schema = asked["params"]["requestedSchema"]["properties"].to_string();
        assert_eq!(schema, r#"{"z":{},"a":{}}"#);
        assert_eq!(raw.printed().await, format!("{printed}\n"));
    }
}

#[tokio::test]
async fn client_that_declared_nothing_is_not_asked() {
    let mut raw = Raw::opened().await;
    raw.begin("ask").await;
    assert_eq!(
        raw.printed().await,
        "Unsupported(\"it declared no elicitation by form\")\n"
    );
    let meta = json!({});
    let mut raw = Raw::new();
    let result = raw.modern(1, &meta, code("ask")).await;
    assert_eq!(
        result["structuredContent"]["stdout"],
        "Unsupported(\"it declared no elicitation by form\")\n"
    );
}

#[tokio::test]
async fn cancelling_a_call_cancels_its_question() {
    let mut raw = Raw::opened_with(json!({"elicitation": {"form": {}}})).await;
    raw.begin("ask").await;
    let asked = raw.answer().await;
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#)
        .await;
    let told = raw.answer().await;
    assert_eq!(told["method"], "notifications/cancelled", "{told}");
    assert_eq!(told["params"]["requestId"], asked["id"]);
}

#[tokio::test]
async fn run_may_ask_at_most_100_questions() {
    let mut raw = Raw::opened_with(json!({"elicitation": {}})).await;
    raw.begin("ask 101").await;
    for _ in 0..100 {
        raw.respond(json!({"result": {"action": "decline"}})).await;
    }
    assert_eq!(
        raw.printed().await,
        "Unsupported(\"this run has asked 100 questions already\")\n"
    );
}

#[tokio::test]
async fn without_a_handshake_a_question_is_the_answer_until_the_client_calls_again() {
    let capabilities = json!({"elicitation": {}});
    let mut raw = Raw::new();
    let asks = raw.modern(1, &capabilities, code("ask 2")).await;
    assert_eq!(asks["resultType"], "input_required");
    let request = &asks["inputRequests"]["1"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], MESSAGE);
    assert_eq!(
        request["params"]["requestedSchema"]["properties"].to_string(),
        r#"{"z":{},"a":{}}"#
    );

    let mut again = code("ask 2");
    again["requestState"] = asks["requestState"].clone();
    // A call with other arguments does not resume the run.
    let mut other = code("ask 3");
    other["requestState"] = asks["requestState"].clone();
    let refused = raw.modern(2, &capabilities, other).await;
    assert_eq!(refused["structuredContent"]["status"], "validation_error");

    again["inputResponses"] = json!({"1": {"action": "accept", "content": {"z": 1}}, "99": {}});
    let asks = raw.modern(3, &capabilities, again.clone()).await;
    let expired = raw.modern(4, &capabilities, again.clone()).await;
    assert_eq!(expired["isError"], true);
    let text = expired["content"][0]["text"].to_string();
    assert!(text.contains("requestState is unknown"), "{text}");

    // An unanswered question is not asked again: the server is told that it was cancelled.
    again["requestState"] = asks["requestState"].clone();
    assert!(asks["inputRequests"]["2"].is_object(), "{asks}");
    again["inputResponses"] = json!({});
    let done = raw.modern(5, &capabilities, again).await;
    assert_eq!(done["structuredContent"]["stdout"], "Cancel\n");
}

#[tokio::test(start_paused = true)]
async fn suspended_run_is_cancelled_when_the_client_does_not_call_again() {
    let capabilities = json!({"elicitation": {}});
    let mut raw = Raw::new();
    let asks = raw.modern(1, &capabilities, code("ask")).await;
    assert!(asks["requestState"].is_string(), "{asks}");
    let begun = tokio::time::Instant::now();
    raw.fake.ended.notified().await;
    assert_eq!(begun.elapsed().as_secs(), 600);
    let cancelled = |at: usize| {
        raw.fake.requests.lock().expect("no panic")[at]
            .cancel
            .is_cancelled()
    };
    assert!(cancelled(0));

    // Sooner when another call waits for its session.
    let asks = raw.modern(2, &capabilities, code("ask")).await;
    assert!(asks["requestState"].is_string(), "{asks}");
    let begun = tokio::time::Instant::now();
    raw.modern(3, &capabilities, code("1")).await;
    raw.fake.ended.notified().await;
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn reports_of_servers_are_progress_of_the_call() {
    let mut raw = Raw::opened().await;
    let line = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "run_python",
        "arguments": {"code": "report"}, "_meta": {"progressToken": "t"}}});
    raw.send(&line.to_string()).await;
    let mut seen = Vec::new();
    loop {
        let message = raw.answer().await;
        if message["id"] == 5 {
            break;
        }
        assert_eq!(message["params"]["progressToken"], "t");
        seen.push((
            message["params"]["progress"].as_f64().expect("a number"),
            message["params"]["total"].as_f64(),
            message["params"]["message"]
                .as_str()
                .expect("a text")
                .to_owned(),
        ));
    }
    let step = |done: u32| format!("github.create_issue: step {done}[2J");
    // The value grows even when the server reports the same one twice.
    let values: Vec<f64> = seen.iter().map(|(value, ..)| *value).collect();
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        (seen[0].1, &seen[0].2, &seen[3].2),
        (Some(4.0), &step(1), &step(3))
    );
}

#[tokio::test]
async fn client_is_told_when_a_page_that_it_showed_is_done() {
    let mut raw = Raw::opened_with(json!({"elicitation": {"url": {}}})).await;
    raw.begin("page").await;
    let asked = raw.respond(json!({"result": {"action": "accept"}})).await;
    assert_eq!(asked["params"]["elicitationId"], "e1");
    let mut got = [raw.answer().await, raw.answer().await];
    got.sort_by_key(|message| message["id"].is_null());
    assert_eq!(got[0]["id"], 5);
    assert_eq!(got[1]["method"], "notifications/elicitation/complete");
    assert_eq!(got[1]["params"], json!({"elicitationId": "e1"}));
    // Only once, and not for a page that another call showed.
    raw.begin("x").await;
    assert_eq!(raw.printed().await, "ran x\n");
}
