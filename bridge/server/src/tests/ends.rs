//! Calls under way: what they report, and how they end by cancellation, end of input, a signal, or
//! the end of the client.

use super::*;

#[tokio::test]
async fn cancelling_a_call_cancels_its_run() {
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
    // A cancelled request is not answered, but the next one is.
    assert_eq!(raw.call(json!({"code": "1"})).await["isError"], false);
}

#[tokio::test(start_paused = true)]
async fn progress_grows_and_a_quiet_run_sends_keep_alives() {
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
async fn end_of_input_cancels_runs_and_ends_the_server() {
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
async fn closing_ends_the_server_even_if_the_client_does_not_read() {
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
async fn server_ends_when_the_client_is_gone() {
    let Raw {
        mut input,
        output,
        closing,
        connection,
        ..
    } = Raw::opened().await;
    let request = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    // The other end of an in-memory stream notices only when both halves are dropped.
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
