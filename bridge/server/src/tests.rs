//! The server from the client's side: rmcp's own client, and raw lines, over in-memory streams.

mod asking;
mod ends;
mod fake;
mod left_running;
mod lines;

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, JsonObject};
use serde_json::json;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use fake::Fake;

use super::*;

fn defaults() -> CallDefaults {
    let settings = Settings::load(
        &bridge_settings::Overrides::default(),
        &bridge_common::host::HostEnv::fake([("HOME", "/nonexistent")]),
    );
    CallDefaults::new(&settings.expect("defaults"))
}

struct Raw {
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    closing: CancellationToken,
    fake: Arc<Fake>,
    connection: tokio::task::JoinHandle<()>,
}

impl Raw {
    fn new() -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let closing = CancellationToken::new();
        let fake = Arc::new(Fake::default());
        let server = Server::new(fake.clone(), defaults(), closing.clone());
        let connection = tokio::spawn(server.serve_streams(reader, writer));
        let (output, input) = tokio::io::split(ours);
        Self {
            input,
            output: BufReader::new(output).lines(),
            closing,
            fake,
            connection,
        }
    }

    async fn opened() -> Self {
        let mut raw = Self::new();
        raw.send(
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        )
        .await;
        let answer = raw.answer().await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        raw.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        raw
    }

    async fn send(&mut self, line: &str) {
        self.send_bytes(line.as_bytes()).await;
    }

    async fn send_bytes(&mut self, line: &[u8]) {
        self.input.write_all(line).await.expect("written");
        self.input.write_all(b"\n").await.expect("written");
    }

    async fn answer(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(60), self.output.next_line());
        let line = line
            .await
            .expect("no answer")
            .expect("read")
            .expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    async fn call(&mut self, arguments: Value) -> Value {
        let line = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call",
            "params": {"name": "run_python", "arguments": arguments}});
        self.send(&line.to_string()).await;
        let answer = self.answer().await;
        assert_eq!(answer["id"], 5);
        answer["result"].clone()
    }
}

#[tokio::test]
async fn call_is_answered_with_text_and_structured_content() {
    let mut raw = Raw::opened().await;
    let result = raw
        .call(json!({"code": "x = 1", "session": "s1", "timeout": 7}))
        .await;
    insta::assert_snapshot!(result.to_string(), @r#"{"content":[{"type":"text","text":"ran x = 1\n"}],"structuredContent":{"status":"success","summary":"success","stdout":"ran x = 1\n","session":"s1"},"isError":false}"#);
    let requests = raw.fake.requests.lock().expect("no panic");
    assert_eq!(requests[0].timeout, Duration::from_secs(7));
    assert_eq!(requests[0].session.as_deref(), Some("s1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_that_arrive_together_begin_in_the_order_they_were_sent() {
    const CALLS: usize = 200;
    let mut raw = Raw::opened().await;
    let lines: Vec<String> = (0..CALLS)
        .map(|n| {
            // Some calls are rejected and begin nothing.
            let code = if n % 7 == 0 { " " } else { "x" };
            json!({"jsonrpc": "2.0", "id": n, "method": "tools/call",
                "params": {"name": "run_python", "arguments": {"code": code, "session": format!("s{n}")}}})
            .to_string()
        })
        .collect();
    let (mut input, all) = (raw.input, lines.join("\n") + "\n");
    let writing = tokio::spawn(async move { input.write_all(all.as_bytes()).await });
    for _ in 0..CALLS {
        let line = raw
            .output
            .next_line()
            .await
            .expect("read")
            .expect("an answer");
        assert!(line.contains("structuredContent"), "{line}");
    }
    writing.await.expect("no panic").expect("written");
    let requests = raw.fake.requests.lock().expect("no panic");
    let begun: Vec<String> = requests
        .iter()
        .filter_map(|request| request.session.clone())
        .collect();
    let sent: Vec<String> = (0..CALLS)
        .filter(|n| n % 7 != 0)
        .map(|n| format!("s{n}"))
        .collect();
    assert_eq!(begun, sent);
}

#[tokio::test]
async fn wrong_arguments_give_an_error_result_and_run_nothing() {
    let mut raw = Raw::opened().await;
    for arguments in [
        json!({"code": " "}),
        json!({"code": "1", "timeout": 0}),
        json!({"coed": "1"}),
        json!("code"),
        json!([]),
    ] {
        let result = raw.call(arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}");
        assert_eq!(
            result["structuredContent"]["status"], "validation_error",
            "{arguments}"
        );
    }
    assert!(raw.fake.requests.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn missing_sandbox_gives_an_error_result() {
    let mut raw = Raw::opened().await;
    let result = raw.call(json!({"code": "nothing there"})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(
        result["content"][0]["text"],
        "status: error\nerror: no container engine answers"
    );
    assert_eq!(result["structuredContent"]["reason"], "E0");
}

#[tokio::test]
async fn large_output_arrives_complete() {
    let mut raw = Raw::opened().await;
    let result = raw
        .call(json!({"code": "long", "max_output_tokens": 2_000_000}))
        .await;
    assert_eq!(
        result["content"][0]["text"].as_str().expect("text"),
        "é".repeat(3 << 20)
    );
}

#[tokio::test]
async fn files_are_listed_and_read_as_resources() {
    let mut raw = Raw::opened().await;
    let mut ask = async |method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
        raw.send(&request.to_string()).await;
        raw.answer().await
    };
    let uri = "resource://mcp-code-bridge/session/main/files/a%20b.csv";
    let list = ask("resources/list", json!({})).await;
    assert_eq!(
        list["result"]["resources"][1],
        json!({"uri": uri, "name": "a b.csv", "mimeType": "text/csv", "size": 3})
    );
    let templates = ask("resources/templates/list", json!({})).await;
    assert_eq!(
        templates["result"]["resourceTemplates"][0]["uriTemplate"],
        "resource://mcp-code-bridge/session/{session}/files/{+path}"
    );
    let read = ask("resources/read", json!({ "uri": uri })).await;
    assert_eq!(
        read["result"]["contents"][0],
        json!({"uri": uri, "mimeType": "text/csv", "text": "1,2"})
    );
    for (uri, told) in [
        ("resource://mcp-code-bridge/session/main/files/x", "no file"),
        (
            "resource://mcp-code-bridge/session/old/files/x",
            "has no sandbox now",
        ),
        ("resource://else/where", "no resource resource://else/where"),
        ("", "no resource"),
    ] {
        let error = ask("resources/read", json!({ "uri": uri })).await["error"].take();
        assert_eq!(error["code"], -32002, "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(told), "{message}");
    }
}

#[tokio::test]
async fn client_with_handshake_lists_the_tool_and_the_resource() {
    let mut raw = Raw::opened().await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    insta::assert_snapshot!(
        "tools_list",
        serde_json::to_string_pretty(&raw.answer().await).expect("JSON")
    );
    raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"resources/list"}"#)
        .await;
    insta::assert_snapshot!(
        "resources_list",
        serde_json::to_string_pretty(&raw.answer().await).expect("JSON")
    );
    let read = json!({"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {"uri": capabilities::URI}});
    raw.send(&read.to_string()).await;
    let answer = raw.answer().await;
    assert_eq!(answer["result"]["contents"][0]["mimeType"], "text/markdown");
    insta::assert_snapshot!(
        "capabilities",
        answer["result"]["contents"][0]["text"]
            .as_str()
            .expect("text")
    );
    raw.send(r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#)
        .await;
    assert_eq!(
        raw.answer().await,
        json!({"jsonrpc": "2.0", "id": 4, "result": {}})
    );
}

#[tokio::test]
async fn client_without_handshake_is_served() {
    let mut raw = Raw::new();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let request = |id: u32, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    raw.send(&request(1, "server/discover", json!({}))).await;
    let answer = raw.answer().await;
    let versions = answer["result"]["supportedVersions"]
        .as_array()
        .expect("versions")
        .clone();
    assert!(
        versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-06-18")),
        "{answer}"
    );
    // rmcp alone would end the connection on a notification at this point.
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    raw.send(&request(2, "tools/list", json!({}))).await;
    let answer = raw.answer().await;
    assert_eq!(
        answer["result"]["tools"][0]["name"], "run_python",
        "{answer}"
    );
    assert!(
        answer["result"]["ttlMs"].is_number() && answer["result"]["cacheScope"].is_string(),
        "{answer}"
    );
    raw.send(&request(
        3,
        "tools/call",
        json!({"name": "run_python", "arguments": {"code": "1"}}),
    ))
    .await;
    assert_eq!(
        raw.answer().await["result"]["structuredContent"]["stdout"],
        "ran 1\n"
    );
    // Cancelling works, so the session is open.
    raw.send(&request(
        4,
        "tools/call",
        json!({"name": "run_python", "arguments": {"code": "wait"}}),
    ))
    .await;
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}"#)
        .await;
    raw.send(&request(5, "tools/list", json!({}))).await;
    assert_eq!(raw.answer().await["id"], 5);
}

#[tokio::test]
async fn rmcp_client_can_list_and_call_the_tool() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(theirs);
    let server = Server::new(
        Arc::new(Fake::default()),
        defaults(),
        CancellationToken::new(),
    );
    let connection = tokio::spawn(server.serve_streams(reader, writer));
    let client = ().serve(ours).await.expect("connected");
    let tools = client.list_all_tools().await.expect("listed");
    assert_eq!(tools.len(), 1);
    let arguments: JsonObject = [("code".to_owned(), json!("2"))].into_iter().collect();
    let result = client
        .call_tool(CallToolRequestParams::new("run_python").with_arguments(arguments))
        .await;
    assert_eq!(result.expect("answered").is_error, Some(false));
    client.cancel().await.expect("closed");
    connection.await.expect("no panic");
}
