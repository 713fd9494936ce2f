//! The face from the client's side: rmcp's own client, and raw lines, over in-memory streams.

mod asking;
mod left_running;

use std::sync::Mutex;

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, JsonObject};
use serde_json::json;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use super::*;
use crate::broker::Summary;
use crate::session::{Captured, Displays, RunOutcome, State, Status};
use crate::upstream::Reply;

/// Answers by what the code says, without Python.
#[derive(Default)]
struct Fake {
    requests: Mutex<Vec<RunRequest>>,
    runs: Mutex<Vec<Arc<Run>>>,
    /// Told when a run that asks has ended, in whatever way.
    ended: Arc<tokio::sync::Notify>,
}

/// Tells of its end.
struct Ended(Arc<tokio::sync::Notify>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn done(request: &RunRequest, status: Status) -> RunOutcome {
    RunOutcome {
        status,
        session: request
            .session
            .clone()
            .unwrap_or_else(|| "default".to_owned()),
        cell: 1,
        stdout: Captured::default(),
        stderr: Captured::default(),
        error: None,
        exit_code: None,
        result: None,
        state: State::Kept,
        note: None,
        servers: request.servers.clone(),
        calls: Summary::default(),
        displays: Displays::default(),
        files: Vec::new(),
        timeout: request.timeout,
        run: None,
        elapsed: Duration::ZERO,
    }
}

async fn act(
    run: &Run,
    request: &RunRequest,
    progress: &dyn Progress,
    ended: Arc<tokio::sync::Notify>,
) -> RunOutcome {
    match request.code.as_str() {
        "wait" => {
            run.write(b"waiting\n");
            request.cancel.cancelled().await;
            return done(request, Status::Cancelled);
        }
        "deaf" => std::future::pending().await,
        "report" => {
            for done in [1, 2, 2, 3] {
                request.client.0.tell(asking::report(done));
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
        code if code.starts_with("ask") => {
            let _ended = Ended(ended);
            let times = code
                .split(' ')
                .nth(1)
                .map_or(1, |times| times.parse().expect("a number"));
            let mut reply = Reply::Cancel;
            for _ in 0..times {
                let question = asking::question(request.cancel.child_token());
                tokio::select! {
                    answer = request.client.0.ask(question) => reply = answer,
                    () = request.cancel.cancelled() => return done(request, Status::Cancelled),
                }
            }
            run.write(format!("{reply:?}\n").as_bytes());
        }
        "ticks" => {
            for number in 0..10 {
                run.write(format!("{number} ").as_bytes());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        "load" => {
            for step in 0..50 {
                progress.report("loading the guest image", step, Some(50));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            progress.report("starting", 0, None);
            tokio::time::sleep(Duration::from_secs(12)).await;
            run.write(b"loaded\n");
        }
        "long" => run.write("é".repeat(3 << 20).as_bytes()),
        code => run.write(format!("ran {code}\n").as_bytes()),
    }
    done(request, Status::Success)
}

#[async_trait]
impl Runner for Fake {
    fn start(&self, request: RunRequest, progress: Arc<dyn Progress>) -> Result<Arc<Run>, Refused> {
        self.requests
            .lock()
            .expect("no panic")
            .push(request.clone());
        if request.code == "nothing there" {
            return Err(Refused::NoSandbox {
                code: "E0",
                message: "no container engine answers".to_owned(),
            });
        }
        let run = Run::alone(&request);
        self.runs.lock().expect("no panic").push(Arc::clone(&run));
        let (acting, ended) = (Arc::clone(&run), Arc::clone(&self.ended));
        tokio::spawn(async move {
            let outcome = act(&acting, &request, &*progress, ended).await;
            acting.end(Ok(outcome));
        });
        Ok(run)
    }

    fn find(&self, id: &str, _: Option<&str>) -> Result<Arc<Run>, Refused> {
        let runs = self.runs.lock().expect("no panic");
        let found = runs.iter().find(|run| run.id() == id);
        found
            .cloned()
            .ok_or_else(|| Refused::Invalid(format!("there is no run {id:?}")))
    }

    fn files(&self) -> Vec<(String, Vec<OutFile>)> {
        let file = OutFile {
            path: "a b.csv".to_owned(),
            size: 3,
            is_new: false,
        };
        vec![("main".to_owned(), vec![file])]
    }

    async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError> {
        let (session, path) = (session.to_owned(), path.to_owned());
        match (session.as_str(), path.as_str()) {
            ("main", "a b.csv") => Ok(b"1,2".to_vec()),
            ("main", _) => Err(FileError::Missing { session, path }),
            _ => Err(FileError::Gone { session }),
        }
    }
}

fn face() -> Face {
    let settings = Settings::load(
        &crate::settings::Overrides::default(),
        &crate::settings::Variables::given([("HOME", "/nonexistent")]),
    );
    Face::new(&settings.expect("defaults"))
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
        let server = Server::new(fake.clone(), face(), closing.clone());
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
async fn a_call_is_answered_as_text_and_structured() {
    let mut raw = Raw::opened().await;
    let result = raw
        .call(json!({"code": "x = 1", "session": "s1", "timeout": 7}))
        .await;
    insta::assert_snapshot!(result.to_string(), @r#"{"content":[{"type":"text","text":"ran x = 1\n"}],"structuredContent":{"status":"success","summary":"success","stdout":"ran x = 1\n","session":"s1"},"isError":false}"#);
    let requests = raw.fake.requests.lock().expect("no panic");
    assert_eq!(requests[0].timeout, Duration::from_secs(7));
    assert_eq!(requests[0].session.as_deref(), Some("s1"));
}

#[tokio::test]
async fn wrong_arguments_are_a_result_and_nothing_is_run() {
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
async fn no_sandbox_is_an_error_result() {
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
async fn large_output_arrives_whole() {
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
async fn the_old_era_lists_the_tool_and_the_resource() {
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
async fn the_new_era_needs_no_handshake() {
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
    // Not rmcp's end of the connection, for which a notification here would do.
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
    // The session is open: cancelling works.
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
async fn before_the_session_begins_nothing_ends_the_connection() {
    let mut raw = Raw::new();
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#).await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await;
    assert_eq!(raw.answer().await["id"], 1);
    raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#)
        .await;
    assert_eq!(raw.answer().await["error"]["code"], -32602);
    raw.send(r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}"#)
        .await;
    let answer = raw.answer().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(3), &json!(-32602))
    );
    raw.send(r#"{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#).await;
    assert_eq!(
        raw.answer().await["result"]["protocolVersion"],
        "2025-11-25"
    );
}

#[tokio::test]
async fn lines_that_are_no_requests_are_answered_and_the_next_one_works() {
    let mut raw = Raw::opened().await;
    let call = |code: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"run_python","arguments":{{"code":"{code}"}}}},"id":"a"}}"#
        )
    };
    let mut check = async |line: &[u8], id: Value, code: i32, part: &str| {
        raw.send_bytes(line).await;
        let answer = raw.answer().await;
        let found = (answer["id"].clone(), answer["error"]["code"].clone());
        assert_eq!(found, (id, json!(code)), "{answer}");
        assert!(
            answer["error"]["message"]
                .as_str()
                .expect("a message")
                .contains(part),
            "{answer}"
        );
    };
    check(
        call("\\ud800").as_bytes(),
        json!("a"),
        -32602,
        "lone surrogate, \\ud800",
    )
    .await;
    check(
        &[&b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"\xff\"}"[..]].concat(),
        json!(3),
        -32700,
        "UTF-8",
    )
    .await;
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":",
        json!(4),
        -32700,
        "not JSON",
    )
    .await;
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\",\"params\":{\"a\":NaN}}",
        json!(5),
        -32700,
        "not JSON",
    )
    .await;
    check(
        b"{\"id\":6,\"method\":\"ping\"}",
        json!(6),
        -32600,
        "JSON-RPC",
    )
    .await;
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
        Value::Null,
        -32600,
        "JSON-RPC",
    )
    .await;
    check(b"hello", Value::Null, -32700, "not JSON").await;
    check(
        b"[{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}]",
        json!(7),
        -32600,
        "batches",
    )
    .await;
    check(b"[]", Value::Null, -32600, "batches").await;
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\",\"params\":{}{}}}",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    check(deep.as_bytes(), json!(8), -32700, "not JSON").await;
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"no/such\"}",
        json!(9),
        -32601,
        "no/such",
    )
    .await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"tools/call\",\"params\":{\"name\":\"other\"}}", json!(10), -32602, "run_python").await;
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"tools/call\",\"params\":5}",
        json!(11),
        -32600,
        "JSON-RPC",
    )
    .await;
    assert_eq!(raw.call(json!({"code": "1"})).await["isError"], false);
}

#[tokio::test]
async fn a_message_that_is_too_long_is_answered() {
    let mut raw = Raw::opened().await;
    let piece = vec![b'x'; 1 << 20];
    raw.input
        .write_all(b"{\"method\":\"tools/call\",\"params\":\"")
        .await
        .expect("written");
    for _ in 0..33 {
        raw.input.write_all(&piece).await.expect("written");
    }
    raw.send("\",\"id\":77}").await;
    let answer = raw.answer().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(77), &json!(-32600))
    );
}

#[tokio::test]
async fn answers_and_notifications_are_never_complained_about() {
    let mut raw = Raw::opened().await;
    raw.send(r#"{"jsonrpc":"2.0","error":{"code":1,"message":"\ud800"},"id":1}"#)
        .await;
    raw.send(r#"{"error":"x"}"#).await;
    raw.send(r#"{"method":"notifications/x"}"#).await;
    raw.send(r#"{"jsonrpc":"2.0","id":99,"method":"ping"}"#)
        .await;
    assert_eq!(raw.answer().await["id"], 99);
}

#[tokio::test]
async fn rubbish_is_complained_about_a_bounded_number_of_times() {
    let mut raw = Raw::opened().await;
    for _ in 0..100 {
        raw.send("x").await;
    }
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await;
    let mut complaints = 0;
    while raw.answer().await["id"] != 1 {
        complaints += 1;
    }
    assert_eq!(complaints, 64);
}

#[tokio::test]
async fn cancelling_a_call_gives_the_run_up() {
    let mut raw = Raw::opened().await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"wait"}}}"#).await;
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    let request = loop {
        if let Some(request) = raw.fake.requests.lock().expect("no panic").first() {
            break request.clone();
        }
        tokio::task::yield_now().await;
    };
    request.cancel.cancelled().await;
    // A cancelled request gets no answer, the next one does.
    assert_eq!(raw.call(json!({"code": "1"})).await["isError"], false);
}

#[tokio::test(start_paused = true)]
async fn progress_grows_and_a_long_run_says_that_it_is_alive() {
    let mut raw = Raw::opened().await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"load"},"_meta":{"progressToken":"p"}}}"#).await;
    let mut last = -1.0;
    let mut messages = Vec::new();
    let result = loop {
        let message = raw.answer().await;
        if message["id"] == 1 {
            break message;
        }
        assert_eq!(message["params"]["progressToken"], "p");
        let progress = message["params"]["progress"].as_f64().expect("a number");
        assert!(progress > last, "{progress} after {last}");
        last = progress;
        messages.push(
            message["params"]["message"]
                .as_str()
                .expect("text")
                .to_owned(),
        );
    };
    assert_eq!(result["result"]["isError"], false);
    let loading = messages
        .iter()
        .filter(|message| *message == "loading the guest image")
        .count();
    assert!((5..=12).contains(&loading), "{messages:?}");
    assert!(
        messages.iter().any(|message| message == "starting"),
        "{messages:?}"
    );
    assert!(
        messages.last().expect("one").starts_with("running for 1"),
        "{messages:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_input_gives_runs_up_and_ends_the_server() {
    let mut raw = Raw::opened().await;
    for (id, code) in [(1, "wait"), (2, "deaf")] {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "run_python", "arguments": {"code": code}}});
        raw.send(&line.to_string()).await;
    }
    raw.input.shutdown().await.expect("shut down");
    let answer = raw.answer().await;
    assert_eq!(
        (
            &answer["id"],
            &answer["result"]["structuredContent"]["status"]
        ),
        (&json!(1), &json!("cancelled"))
    );
    let started = tokio::time::Instant::now();
    raw.connection.await.expect("no panic");
    assert!(started.elapsed() <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_signal_ends_the_server_also_when_the_client_does_not_read() {
    let mut raw = Raw::opened().await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"long"}}}"#).await;
    while raw.fake.requests.lock().expect("no panic").is_empty() {
        tokio::task::yield_now().await;
    }
    raw.closing.cancel();
    let started = tokio::time::Instant::now();
    raw.connection.await.expect("no panic");
    assert!(started.elapsed() <= Duration::from_secs(1));
}

#[tokio::test]
async fn a_client_that_is_gone_ends_the_server() {
    let Raw {
        mut input,
        output,
        closing,
        connection,
        ..
    } = Raw::opened().await;
    let request = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    // Both halves of an in-memory stream must go for its other end to notice.
    input.write_all(request).await.expect("written");
    drop((input, output));
    connection.await.expect("no panic");
    assert!(closing.is_cancelled());
}

#[tokio::test]
async fn requests_piped_in_at_once_are_all_answered_before_the_end() {
    let mut raw = Raw::opened().await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)
        .await;
    raw.input.shutdown().await.expect("shut down");
    let mut ids = [
        raw.answer().await["id"].clone(),
        raw.answer().await["id"].clone(),
    ];
    ids.sort_by_key(ToString::to_string);
    assert_eq!(ids, [json!(1), json!(2)]);
    assert!(raw.output.next_line().await.expect("read").is_none());
}

#[tokio::test]
async fn the_client_of_the_same_kit_gets_along() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(theirs);
    let server = Server::new(Arc::new(Fake::default()), face(), CancellationToken::new());
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
