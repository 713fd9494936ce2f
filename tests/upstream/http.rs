//! Servers over streamable HTTP.

use std::process::Stdio;
use std::time::Duration;

use bridge_upstream::{CallContext, Error, Options, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::world::{STUB, World, client, record, recorded, soon, tool};

/// A stub server over HTTP, which ends when this is dropped.
struct Served {
    world: World,
    _process: Child,
    record: std::path::PathBuf,
}

impl Served {
    async fn new(scenario: Value) -> Self {
        Self::with(scenario, json!({}), World::options()).await
    }

    /// Starts a stub with more fields in its entry.
    async fn with(mut scenario: Value, fields: Value, options: Options) -> Self {
        let record = tempfile::tempdir().unwrap().keep().join("record");
        scenario["record"] = json!(record);
        let mut process = Command::new(STUB)
            .args(["--http", &scenario.to_string()])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .await
            .unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap();
        let mut entry = json!({"type": "http", "url": url});
        entry
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let world = World::with(&json!({"stub": entry}), options);
        Self {
            world,
            _process: process,
            record,
        }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Error> {
        self.world.call(tool, arguments).await
    }

    async fn failure(&self) -> String {
        self.call("echo", json!({})).await.unwrap_err().to_string()
    }
}

fn exact() -> Value {
    serde_json::from_str(r#"{"z":123456789012345678901234567890,"a":{"c":1.10,"b":[null,-0.0]},"\u00e9":"\ud83d\ude00"}"#).unwrap()
}

#[tokio::test]
async fn values_pass_exactly_in_both_eras_and_both_forms_of_answers() {
    for modern in [false, true] {
        for sse in [false, true] {
            let odd = json!([{"result": {"content": [{"text": "t", "x-own": 1, "type": "text", "annotations": {"priority": 0.1}}]}}]);
            let served = Served::new(json!({
                "modern": modern,
                "http": {"sse": sse},
                "tools": [tool("echo"), {"name": "bad", "inputSchema": 1}],
                "calls": {"odd": [odd]},
            }))
            .await;
            let list = served.world.tools().await.unwrap();
            assert_eq!(list.tools.len(), 1, "modern {modern}, sse {sse}");
            let result = served
                .call("echo", exact())
                .await
                .unwrap_or_else(|error| panic!("modern {modern}, sse {sse}: {error}"));
            assert_eq!(
                result["structuredContent"].to_string(),
                exact().to_string(),
                "modern {modern}, sse {sse}"
            );
            let result = served.call("odd", json!({})).await.unwrap();
            assert_eq!(
                result.to_string(),
                r#"{"content":[{"text":"t","x-own":1,"type":"text","annotations":{"priority":0.1}}]}"#
            );
            let headers = recorded(&served.record, |line| {
                line["headers"]["mcp-protocol-version"].is_string()
            })
            .await;
            let version = if modern { "2026-07-28" } else { "2025-11-25" };
            assert_eq!(headers["headers"]["mcp-protocol-version"], version);
            let named = record(&served.record)
                .iter()
                .any(|line| line["headers"]["mcp-name"] == "echo");
            assert_eq!(named, modern);
        }
    }
}

#[tokio::test]
async fn answers_in_reverse_order_reach_their_calls() {
    let served = Served::new(json!({"calls": {"r": [[{"reverse": 50}, "echo"]]}})).await;
    let calls = (0..50).map(|number| {
        let served = &served;
        async move {
            let result = served.call("r", json!({"number": number})).await.unwrap();
            assert_eq!(result["structuredContent"], json!({"number": number}));
        }
    });
    futures_util::future::join_all(calls).await;
}

#[tokio::test]
async fn lost_session_is_made_anew_and_a_session_is_deleted_at_the_end() {
    let served = Served::new(json!({"http": {"session": 4}})).await;
    for number in 0..10 {
        let result = served
            .call("echo", json!({"number": number}))
            .await
            .unwrap();
        assert_eq!(result["structuredContent"], json!({"number": number}));
    }
    served.world.upstreams.shutdown().await;
    recorded(&served.record, |line| line["deleted"].is_string()).await;
}

#[tokio::test]
async fn stream_that_breaks_off_is_resumed() {
    let served = Served::new(
        json!({"http": {"interrupt": true}, "calls": {"late": [[{"sleep_ms": 50}, "echo"]]}}),
    )
    .await;
    let result = served.call("late", json!({"a": 1})).await.unwrap();
    assert_eq!(result["structuredContent"], json!({"a": 1}));
    let calls = record(&served.record)
        .iter()
        .filter(|line| line["method"] == "tools/call")
        .count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn refused_credentials_and_a_wanted_login_are_told_apart() {
    let scenario = || json!({"http": {"authorization": "Bearer right-token", "challenge": "Bearer resource_metadata=\"http://127.0.0.1:1/\""}});
    let header = |value: &str| json!({"headers": {"Authorization": value}});
    let served = Served::with(scenario(), header("Bearer wrong-token"), World::options()).await;
    assert_eq!(
        served.failure().await,
        "server \"stub\" rejected the configured credentials (401 Unauthorized)"
    );
    let served = Served::with(scenario(), json!({}), World::options()).await;
    assert_eq!(
        served.failure().await,
        "server \"stub\" needs a login; the user can do that with: mcp-code-bridge servers login stub"
    );
    let served = Served::with(scenario(), header("Bearer right-token"), World::options()).await;
    served.call("echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn endpoint_that_cannot_serve_is_described() {
    let served = Served::new(json!({"http": {"legacy": true}})).await;
    let text = served.failure().await;
    assert!(
        text.starts_with("server \"stub\" did not start: it speaks the HTTP+SSE transport of 2024"),
        "{text}"
    );

    let served = Served::new(json!({"http": {"status": 503}})).await;
    let text = served.failure().await;
    assert!(text.contains("answered initialize with HTTP 503"), "{text}");

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "http://{}/mcp?key=secret-value-1",
        listener.local_addr().unwrap()
    );
    drop(listener);
    let world = World::with(
        &json!({"stub": {"type": "http", "url": url}}),
        World::options(),
    );
    let text = world.call("echo", json!({})).await.unwrap_err().to_string();
    assert!(
        text.starts_with("server \"stub\" did not start: it cannot be reached: "),
        "{text}"
    );
    assert!(!text.contains("secret-value-1"), "{text}");
}

#[tokio::test]
async fn errors_and_sizes_are_those_of_the_call() {
    for sse in [false, true] {
        check_errors_and_sizes(sse).await;
    }
}

async fn check_errors_and_sizes(sse: bool) {
    let options = Options {
        result_bytes: 1024 * 1024,
        ..World::options()
    };
    let served = Served::with(
        json!({"http": {"sse": sse}, "calls": {
            "no": [[{"error": {"code": -32602, "message": "no", "data": [1]}}]],
            "over": [[{"big": 2 * 1024 * 1024}]],
        }}),
        json!({}),
        options,
    )
    .await;
    let Err(Error::Rpc { error, .. }) = served.call("no", json!({})).await else {
        panic!()
    };
    assert_eq!((error.code, error.data), (-32602, json!([1])));
    let error = served.call("over", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    served.call("echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn cancelled_call_is_cancelled_at_the_server() {
    let served =
        Served::new(json!({"http": {"sse": true}, "calls": {"long": [["until_cancelled"]]}})).await;
    let cancel = CancellationToken::new();
    let context = CallContext {
        cancel: cancel.clone(),
        ..soon()
    };
    let (result, ()) = tokio::join!(served.world.call_with("long", json!({}), &context), async {
        recorded(&served.record, |line| line["params"]["name"] == "long").await;
        cancel.cancel();
    });
    assert!(matches!(result, Err(Error::Cancelled { .. })), "{result:?}");
    tokio::time::timeout(
        Duration::from_secs(10),
        recorded(&served.record, |line| {
            line["method"] == "notifications/cancelled"
        }),
    )
    .await
    .unwrap();
    served.call("echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn questions_reach_the_client_of_their_own_call() {
    let served = Served::new(json!({"http": {"sse": true}, "calls": {"ask": [[
        {"reverse": 2},
        {"ask": ["elicitation/create", {"message": "Sure?"}]},
        {"result": {"structuredContent": "$answer"}},
    ]]}}))
    .await;
    let (yes, ..) = client(Reply::Accept(json!({"yes": true})));
    let (no, ..) = client(Reply::Decline);
    let (accepted, declined) = tokio::join!(
        served.world.call_with("ask", json!({}), &yes),
        served.world.call_with("ask", json!({}), &no),
    );
    assert_eq!(accepted.unwrap()["structuredContent"]["action"], "accept");
    assert_eq!(declined.unwrap()["structuredContent"]["action"], "decline");
}
