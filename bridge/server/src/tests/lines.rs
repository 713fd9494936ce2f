//! Lines that are not requests, or come too early, are answered where possible, and the connection
//! goes on.

use super::*;

#[tokio::test]
async fn messages_before_the_session_begins_do_not_end_the_connection() {
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
async fn invalid_lines_are_answered_and_the_next_request_works() {
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
async fn message_that_is_too_long_is_answered_with_an_error() {
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
async fn malformed_answers_and_notifications_are_ignored() {
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
async fn errors_without_an_id_are_limited_in_number() {
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
