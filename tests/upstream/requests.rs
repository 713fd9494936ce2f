//! The requests of a run, as the broker checks, counts and answers them.

use std::collections::BTreeMap;

use bridge_broker::{GuestError, Kind, Limits};
use serde_json::json;

use crate::broker::{Session, github};
use crate::world::{World, record, recorded, stub, tool};

#[tokio::test]
async fn tools_are_called_by_either_name_and_unknown_ones_are_not_called() {
    let session = Session::new(&json!({"github": github()}));
    session.load(&["github"]).await.unwrap();
    for name in ["create-issue", "create_issue"] {
        let result = session.call("github", name, json!({"a": 1})).await.unwrap();
        assert_eq!(result["structuredContent"], json!({"a": 1}));
    }
    let refusal = session
        .call("github", "create_isue", json!({}))
        .await
        .unwrap_err();
    assert_eq!(
        refusal.message,
        "server \"github\" has no tool \"create_isue\" (did you mean create-issue?)"
    );
    assert_eq!(refusal.server.as_deref(), Some("github"));
}

#[tokio::test]
async fn secrets_of_any_server_are_taken_out_of_results() {
    let mut entry = stub(&json!({"tools": [tool("t")], "calls": {"t": [[
        {"result": {"content": [{"type": "text", "text": "token $env:MYTHING"}], "isError": true}},
    ]]}}));
    entry["env"] = json!({"MYTHING": "ghp_0123456789abcdef"});
    let session = Session::new(&json!({"s": entry}));
    session.load(&["s"]).await.unwrap();
    let result = session.call("s", "t", json!({})).await.unwrap();
    assert_eq!(result["content"][0]["text"], "token [redacted]");
}

#[tokio::test]
async fn run_is_answered_counted_cancelled_and_summed_up() {
    let world = World::new(&[]);
    let file = world.path("record");
    let scenario = json!({
        "record": file,
        "tools": [tool("quick"), tool("long")],
        "calls": {"long": [["until_cancelled"]]},
    });
    let limits = Limits {
        parallel: 3,
        ..Limits::default()
    };
    let session = Session::with(&json!({"s": stub(&scenario)}), limits);
    session.load(&["s"]).await.unwrap();
    let (run, mut responses) = session.run();
    let call = |tool: &str, number: u64| json!({"server": "s", "tool": tool, "arguments": {"number": number}});
    for number in 0..100 {
        run.request(number, "call_tool", call("quick", number));
    }
    for _ in 0..100 {
        let response = responses.recv().await.unwrap();
        assert_eq!(
            response.result.unwrap().value()["structuredContent"],
            json!({"number": response.call})
        );
    }
    // The guest cancels one call.
    run.request(100, "call_tool", call("long", 0));
    recorded(&file, |line| line["params"]["name"] == "long").await;
    run.cancel(100);
    let refusal = responses.recv().await.unwrap().result.unwrap_err();
    assert_eq!(*refusal.details, json!({"reason": "cancelled"}));
    recorded(&file, |line| line.get("cancelled").is_some()).await;
    // At the end three calls are under way and two wait for their turn; a number that is taken is
    // not a new call.
    for number in 101..106 {
        run.request(number, "call_tool", call("long", number));
    }
    run.request(101, "call_tool", call("quick", 0));
    let under_way = || {
        record(&file)
            .iter()
            .filter(|line| line["params"]["name"] == "long")
            .count()
    };
    recorded(&file, |_| under_way() == 4).await;
    let summary = run.end();
    assert_eq!(
        summary.to_string(),
        "101 done (s.quick ×100, s.long (failed)), 3 cancelled (s.long ×3), 2 not started"
    );
    recorded(&file, |_| {
        record(&file)
            .iter()
            .filter(|line| line.get("cancelled").is_some())
            .count()
            == 4
    })
    .await;
    run.request(200, "call_tool", call("quick", 0));
    assert_eq!(
        run.end().to_string(),
        "101 done (s.quick ×100, s.long (failed))"
    );
}

#[tokio::test]
async fn calls_have_a_limit_and_so_do_answers_that_are_not_read() {
    let scenario = json!({"tools": [tool("t")]});
    let limits = Limits {
        calls: 3,
        writes: 3,
        pending: 10,
        pending_bytes: 1 << 20,
        parallel: 2,
    };
    let session = Session::with(&json!({"s": stub(&scenario)}), limits);
    session.load(&["s"]).await.unwrap();
    let (run, mut responses) = session.run();
    for number in 0..4 {
        run.request(number, "call_tool", json!({"server": "s", "tool": "t"}));
    }
    let mut results = BTreeMap::new();
    for _ in 0..4 {
        let response = responses.recv().await.unwrap();
        results.insert(response.call, response.result);
    }
    let refused: Vec<&GuestError> = results
        .values()
        .filter_map(|result| result.as_ref().err())
        .collect();
    let [refusal] = refused[..] else {
        panic!("{refused:?}")
    };
    assert_eq!(refusal.kind, Kind::Permission);
    assert_eq!(
        refusal.message,
        "this run has made 3 tool calls, the most that one run may make"
    );
    assert_eq!(*refusal.details, json!({"reason": "call_limit"}));

    for number in 10..1000 {
        run.request(number, "no such request", json!({}));
    }
    let mut answers = 0;
    while responses.try_recv().is_ok() {
        answers += 1;
    }
    assert_eq!(answers, 21);
}
