//! Calls and their results: exact, matched, bounded, cancelled.

use std::time::Duration;

use bridge_upstream::{CallContext, Error};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::world::{World, no_arguments, recorded, soon, within};

#[tokio::test]
async fn arguments_and_results_pass_exactly() {
    let world = World::stub(json!({}));
    let arguments: Value = serde_json::from_str(
        r#"{"z":123456789012345678901234567890,"a":{"c":1.10,"b":[null,true,-0.0,1e+400]},"é\u0000\n":"\ud83d\ude00"}"#,
    )
    .unwrap();
    let result = world.call("echo", arguments.clone()).await.unwrap();
    assert_eq!(
        result["structuredContent"].to_string(),
        arguments.to_string()
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[0-9]{20,40}".prop_map(|digits| serde_json::from_str(&format!("1{digits}")).unwrap()),
        any::<f64>()
            .prop_filter("JSON has no others", |number| number.is_finite())
            .prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".{0,8}", inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

#[test]
fn any_json_value_survives_the_way_there_and_back() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::stub(json!({}));
    proptest!(ProptestConfig::with_cases(200), |(value in any_json())| {
        let arguments = json!({ "value": value });
        let result = runtime.block_on(world.call("echo", arguments.clone())).unwrap();
        prop_assert_eq!(result["structuredContent"].to_string(), arguments.to_string());
    });
    runtime.block_on(world.upstreams.shutdown());
}

#[tokio::test]
async fn answers_in_reverse_order_reach_their_calls() {
    let answer = json!([{"reverse": 50}, "echo"]);
    let world = World::stub(json!({"calls": {"r": [answer]}}));
    let calls = (0..50).map(|number| {
        let world = &world;
        async move {
            let result = world.call("r", json!({"number": number})).await.unwrap();
            assert_eq!(result["structuredContent"], json!({"number": number}));
        }
    });
    futures_util::future::join_all(calls).await;
}

#[tokio::test]
async fn calls_run_side_by_side_and_a_bounded_number_of_them() {
    let world = World::stub(json!({"calls": {"slow": [[{"sleep_ms": 100}, "echo"]]}}));
    world.call("warm", json!({})).await.unwrap();
    let started = Instant::now();
    let calls = (0..50).map(|_| world.call("slow", json!({})));
    for result in futures_util::future::join_all(calls).await {
        result.unwrap();
    }
    // One after another the calls would take 5 s.
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );

    let mut options = World::options();
    options.parallel = 2;
    let entries = json!({"stub": crate::world::stub(&json!({"calls": {"pair": [[{"reverse": 2}, "echo"]], "all": [[{"reverse": 3}, "echo"]]}}))});
    let world = World::with(&entries, options);
    let pair = (0..2).map(|_| world.call("pair", json!({})));
    assert!(
        futures_util::future::join_all(pair)
            .await
            .iter()
            .all(Result::is_ok)
    );
    let context = within(Duration::from_millis(300));
    let three = (0..3).map(|_| world.call_with("all", json!({}), &context));
    assert!(
        futures_util::future::join_all(three)
            .await
            .iter()
            .all(Result::is_err)
    );
}

#[tokio::test]
async fn large_result_passes_and_a_larger_one_is_refused_on_a_live_connection() {
    let world = World::stub(json!({"calls": {
        "fits": [[{"big": 16 * 1024 * 1024}]],
        "over": [[{"big": 17 * 1024 * 1024}]],
        "far over": [[{"raw": "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":\""}, {"flood": 70 * 1024 * 1024}, {"raw": "\"}}\n"}]],
    }}));
    let result = world.call("fits", json!({})).await.unwrap();
    assert_eq!(
        result["content"][0]["text"].as_str().unwrap().len(),
        16 * 1024 * 1024
    );
    for (tool, size) in [("over", "17 MiB"), ("far over", "70 MiB")] {
        let error = world.call(tool, json!({})).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!("stub.{tool} answered with {size}, more than the 16 MiB allowed")
        );
    }
    world.call("echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn output_that_is_not_a_message_is_skipped_and_never_answered() {
    let world = World::new(&[("stub", json!({}))]);
    let record = world.path("record");
    let noise = "Starting...\n\n\r\n{bad\n[]\n42\n\"text\"\n{\"jsonrpc\":\"2.0\"}\n{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n";
    let world = World::with(
        &json!({"stub": crate::world::stub(&json!({
            "record": record,
            "greeting": [{"raw": noise}],
            "calls": {"t": [[
                {"raw": noise},
                {"raw_base64": "//79Cg=="},
                {"raw": "\u{feff}{\"id\":$id,\"result\":{\"content\":[]}}\r\n"},
            ]]},
        }))}),
        World::options(),
    );
    assert_eq!(
        world.call("t", json!({})).await.unwrap(),
        json!({"content": []})
    );
    world.call("echo", json!({})).await.unwrap();
    let methods: Vec<Value> = crate::world::record(&record)
        .iter()
        .skip(1)
        .map(|message| message["method"].clone())
        .collect();
    assert_eq!(
        methods,
        [
            "initialize",
            "notifications/initialized",
            "tools/call",
            "tools/call"
        ]
    );
    let status = world.upstreams.status(&"stub".into());
    let bridge_upstream::Status::Running { non_protocol, .. } = status else {
        panic!("{status:?}")
    };
    assert_eq!(non_protocol, 2 * 7 + 1);
}

#[tokio::test]
async fn answer_that_is_not_json_fails_its_call_at_once() {
    let world = World::stub(
        json!({"calls": {"nan": [[{"raw": "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"x\":NaN}}\n"}]]}}),
    );
    let error = world.call("nan", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    let latin = World::stub(
        json!({"calls": {"latin": [[{"raw": "{\"id\":$id,\"result\":{\"content\":\""}, {"raw_base64": "6Q=="}, {"raw": "\"}}\n"}]]}}),
    );
    assert_eq!(
        latin.call("latin", json!({})).await.unwrap(),
        json!({"content": "\u{fffd}"})
    );
}

#[tokio::test]
async fn wrong_id_answers_no_call() {
    let world = World::stub(json!({"calls": {"wrong": [[
        {"raw": "{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{\"content\":[\"wrong\"]}}\n"},
        {"raw": "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{\"content\":[\"wrong\"]}}\n"},
        "echo",
    ]]}}));
    assert_eq!(
        world.call("wrong", json!({"a": 1})).await.unwrap()["structuredContent"],
        json!({"a": 1})
    );
}

#[tokio::test]
async fn cancelled_call_is_cancelled_at_the_server_and_its_late_answer_ignored() {
    let world = World::new(&[]);
    let record = world.path("record");
    let scenario = json!({"record": record, "calls": {"long": [["until_cancelled", "echo"]]}});
    let world = World::with(
        &json!({"stub": crate::world::stub(&scenario)}),
        World::options(),
    );
    let cancel = CancellationToken::new();
    let context = CallContext {
        cancel: cancel.clone(),
        ..soon()
    };
    let call = world.call_with("long", json!({}), &context);
    let (result, ()) = tokio::join!(call, async {
        recorded(&record, |line| line["params"]["name"] == "long").await;
        cancel.cancel();
    });
    assert!(matches!(result, Err(Error::Cancelled { .. })), "{result:?}");
    recorded(&record, |line| line.get("cancelled").is_some()).await;

    // A call is given up by its deadline, and by dropping its future.
    let error = world
        .call_with("long", json!({}), &within(Duration::from_millis(500)))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    let count = |record: &std::path::Path| {
        crate::world::record(record)
            .iter()
            .filter(|line| line.get("cancelled").is_some())
            .count()
    };
    recorded(&record, |_| count(&record) == 2).await;
    let context = soon();
    tokio::select! {
        biased;
        result = world.call_with("long", json!({}), &context) => panic!("{result:?}"),
        _ = recorded(&record, |_| crate::world::record(&record).iter().filter(|line| line["params"]["name"] == "long").count() == 3) => {}
    }
    recorded(&record, |_| count(&record) == 3).await;
    assert_eq!(
        world.call("echo", json!({"a": 1})).await.unwrap()["structuredContent"],
        json!({"a": 1})
    );
}

#[tokio::test]
async fn progress_keeps_a_call_alive_and_silence_ends_it() {
    let beat = |times: usize| {
        let mut steps = Vec::new();
        for _ in 0..times {
            steps.push(json!({"sleep_ms": 200}));
            steps.push(json!({"notify": ["notifications/progress", {"progressToken": "$token", "progress": 1}]}));
        }
        steps.push(json!("echo"));
        steps
    };
    let mut entry =
        crate::world::stub(&json!({"calls": {"busy": [beat(10)], "quiet": [["until_cancelled"]]}}));
    entry["tool_timeout_ms"] = json!(1500);
    let world = World::with(&json!({"stub": entry}), World::options());
    assert_eq!(
        world.definition("stub").call_timeout,
        Some(Duration::from_millis(1500))
    );
    world.call("busy", json!({})).await.unwrap();
    let error = world.call("quiet", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn errors_of_the_server_keep_code_and_data_and_lose_secrets() {
    let mut entry = crate::world::stub(&json!({"calls": {"fail": [[
        {"error": {"code": -32602, "message": "no $env:MYTHING", "data": {"token": "$env:MYTHING"}}},
    ]]}}));
    entry["env"] = json!({"MYTHING": "ghp_0123456789abcdef"});
    let world = World::with(&json!({"stub": entry}), World::options());
    let Err(Error::Rpc { error, .. }) = world.call("fail", json!({})).await else {
        panic!()
    };
    assert_eq!(
        (error.code, error.message.as_str()),
        (-32602, "no [redacted]")
    );
    assert_eq!(error.data, json!({"token": "[redacted]"}));
}

#[tokio::test]
async fn servers_inherit_the_allow_list_and_their_own_block() {
    let mut entry = crate::world::stub(&json!({"calls": {"env": [[
        {"result": {"content": ["$env:PATH", "$env:A", "$env:BRIDGE_ONLY"]}},
    ]]}}));
    entry["env"] = json!({"A": "1"});
    let world = World::with(&json!({"stub": entry}), World::options());
    let result = world
        .upstreams
        .call(world.definition("stub"), "env", no_arguments(), &soon())
        .await
        .unwrap();
    assert_eq!(
        result.value()["content"],
        json!(["/usr/bin:/bin", "1", "(unset)"])
    );
}
