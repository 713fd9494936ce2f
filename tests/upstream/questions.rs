//! Questions of servers to the client: four outcomes, in both protocol eras, and never a hang.

use bridge_upstream::{Error, Event, QuestionKind, Reply, RpcError};
use serde_json::{Value, json};

use crate::world::{World, client};

fn elicits() -> Value {
    json!([
        {"ask": ["elicitation/create", {"message": "Sure?", "requestedSchema": {"type": "object", "x-own": 1}}]},
        {"result": {"content": [], "structuredContent": "$answer"}},
    ])
}

#[tokio::test]
async fn elicitation_has_four_outcomes() {
    let world = World::stub(json!({"calls": {"ask": [elicits()]}}));
    let answers = [
        (
            Reply::Accept(json!({"yes": true})),
            json!({"action": "accept", "content": {"yes": true}}),
        ),
        (Reply::Decline, json!({"action": "decline"})),
        (Reply::Cancel, json!({"action": "cancel"})),
    ];
    for (reply, answer) in answers {
        let (context, mut questions, _) = client(reply);
        let result = world.call_with("ask", json!({}), &context).await.unwrap();
        assert_eq!(result["structuredContent"], answer);
        let question = questions.recv().await.unwrap();
        assert_eq!(
            (question.kind, question.tool.as_deref()),
            (QuestionKind::Elicitation, Some("ask"))
        );
        assert_eq!(
            question.params["requestedSchema"],
            json!({"type": "object", "x-own": 1})
        );
    }
    let result = world.call("ask", json!({})).await.unwrap();
    assert_eq!(result["structuredContent"]["code"], -32601);
    assert_eq!(
        result["structuredContent"]["message"],
        "elicitation/create is not supported by the client: no client is connected that could be asked; nobody was asked"
    );
}

#[tokio::test]
async fn sampling_is_relayed_and_other_requests_are_refused_at_once() {
    let world = World::stub(json!({"calls": {
        "sample": [[{"ask": ["sampling/createMessage", {"maxTokens": 5}]}, {"result": {"structuredContent": "$answer"}}]],
        "roots": [[{"ask": ["roots/list", {}]}, {"result": {"structuredContent": "$answer"}}]],
        "ping": [[{"ask": ["ping", {}]}, {"result": {"structuredContent": "$answer"}}]],
    }}));
    let (context, ..) = client(Reply::Accept(json!({"role": "assistant", "model": "m"})));
    let result = world
        .call_with("sample", json!({}), &context)
        .await
        .unwrap();
    assert_eq!(
        result["structuredContent"],
        json!({"role": "assistant", "model": "m"})
    );
    let failed = RpcError {
        code: -7,
        message: "no model".to_owned(),
        data: json!({"a": 1}),
    };
    for (reply, answer) in [
        (
            Reply::Decline,
            json!({"code": -1, "message": "the user declined the sampling request"}),
        ),
        (
            Reply::Failed(failed),
            json!({"code": -7, "message": "no model", "data": {"a": 1}}),
        ),
    ] {
        let (context, ..) = client(reply);
        let result = world
            .call_with("sample", json!({}), &context)
            .await
            .unwrap();
        assert_eq!(result["structuredContent"], answer);
    }
    assert_eq!(
        world.call("roots", json!({})).await.unwrap()["structuredContent"]["code"],
        -32601
    );
    assert_eq!(
        world.call("ping", json!({})).await.unwrap()["structuredContent"],
        json!({})
    );
}

#[tokio::test]
async fn questions_within_results_are_answered_in_rounds() {
    let question = json!({"method": "elicitation/create", "params": {"message": "Sure?"}});
    let asks = json!([{"result": {
        "resultType": "input_required",
        "inputRequests": {"q": question},
        "requestState": "state-1",
    }}]);
    let done = json!(["echo"]);
    let scenario = |record: &std::path::Path| {
        json!({
            "modern": true,
            "record": record,
            "calls": {"ask": [asks, done], "for ever": [asks]},
        })
    };
    let world = World::new(&[]);
    let record = world.path("record");
    let world = World::with(
        &json!({"stub": crate::world::stub(&scenario(&record))}),
        World::options(),
    );
    let (context, ..) = client(Reply::Accept(json!({"yes": true})));
    let result = world
        .call_with("ask", json!({"a": 1}), &context)
        .await
        .unwrap();
    assert_eq!(result["structuredContent"], json!({"a": 1}));
    let again = crate::world::record(&record).pop().unwrap();
    assert_eq!(again["params"]["requestState"], "state-1");
    assert_eq!(
        again["params"]["inputResponses"],
        json!({"q": {"action": "accept", "content": {"yes": true}}})
    );
    let error = world
        .call_with("for ever", json!({}), &context)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");

    let failed = RpcError {
        code: -7,
        message: "no dialog".to_owned(),
        data: Value::Null,
    };
    let (context, ..) = client(Reply::Failed(failed));
    let error = world
        .call_with("for ever", json!({}), &context)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "stub.for ever asks for an answer of the user (elicitation); the client answered: no dialog (code -7)"
    );
    let error = world.call("for ever", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "stub.for ever asks for an answer of the user (elicitation), which this client does not support: \
         no client is connected that could be asked"
    );
}

#[tokio::test]
async fn server_is_told_what_the_client_offers() {
    let (offering, ..) = client(Reply::Cancel);
    let all = json!({"elicitation": {"form": {}}, "sampling": {}});
    for (context, declared) in [(offering, all), (crate::world::soon(), json!({}))] {
        let world = World::new(&[]);
        let record = world.path("record");
        let world = World::with(
            &json!({"stub": crate::world::stub(&json!({"record": record}))}),
            World::options(),
        );
        world.call_with("echo", json!({}), &context).await.unwrap();
        let initialize = crate::world::record(&record).remove(1);
        assert_eq!(initialize["params"]["capabilities"], declared);
        assert_eq!(initialize["params"]["protocolVersion"], "2025-11-25");
    }
}

#[tokio::test]
async fn progress_and_log_lines_reach_the_client() {
    let world = World::stub(json!({"calls": {"work": [[
        {"notify": ["notifications/progress", {"progressToken": "$token", "progress": 1, "total": 2}]},
        {"notify": ["notifications/progress", {"progressToken": "forged", "progress": 1}]},
        {"notify": ["notifications/message", {"level": "info", "data": "half"}]},
        {"notify": ["notifications/elicitation/complete", {"elicitationId": "e1"}]},
        "echo",
    ]]}}));
    let (context, _, mut events) = client(Reply::Cancel);
    world.call_with("work", json!({}), &context).await.unwrap();
    drop(context);
    let progress = json!({"progress": 1, "total": 2});
    let expected = Event::Progress {
        server: "stub".into(),
        tool: "work".to_owned(),
        params: progress,
    };
    assert_eq!(events.recv().await, Some(expected));
    let expected = Event::Log {
        server: "stub".into(),
        params: json!({"level": "info", "data": "half"}),
    };
    assert_eq!(events.recv().await, Some(expected));
    let expected = Event::ElicitationDone {
        server: "stub".into(),
        id: "e1".to_owned(),
    };
    assert_eq!(events.recv().await, Some(expected));
    assert_eq!(events.recv().await, None);
}

#[tokio::test]
async fn both_eras_and_their_odd_peers_are_understood() {
    let refuse = |code: i32| json!([{"error": {"code": code, "message": "what?"}}]);
    for scenario in [
        json!({"methods": {"server/discover": refuse(-32601)}}),
        json!({"version": "2025-03-26"}),
        json!({"version": "2024-11-05", "capabilities": null}),
        json!({"modern": true}),
        json!({"modern": true, "methods": {"initialize": refuse(-32600)}}),
        json!({"modern": true, "methods": {"initialize": refuse(-32602)}}),
        json!({"modern": true, "methods": {"initialize": refuse(-32022)}}),
        json!({"modern": true, "methods": {"initialize": [{"raw": "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"?\"}}\n"}]}}),
        json!({"modern": true, "methods": {"initialize": null}}),
    ] {
        let world = World::stub(scenario.clone());
        let result = world.call("echo", json!({"a": 1})).await;
        assert_eq!(
            result.unwrap()["structuredContent"],
            json!({"a": 1}),
            "{scenario}"
        );
    }
    let world = World::stub(
        json!({"methods": {"initialize": [{"result": {"no": 1}}], "server/discover": refuse(-32601)}}),
    );
    let error = world.tools().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server \"stub\" did not start: it answered initialize with {\"no\":1}, and server/discover with error -32601 (what?)"
    );
}
