//! What the client gets of the questions that servers ask.

use tokio_util::sync::CancellationToken;

use super::*;

fn offers(capabilities: Value) -> Offers {
    Offers::new(Some(
        &serde_json::from_value(capabilities).expect("capabilities"),
    ))
}

fn question(kind: QuestionKind, params: Value) -> Question {
    Question {
        server: "github".into(),
        tool: Some("create_issue".to_owned()),
        kind,
        params,
        cancel: CancellationToken::new(),
    }
}

fn form(params: Value) -> Result<Value, String> {
    offers(json!({"elicitation": {}})).relayed(&question(QuestionKind::Elicitation, params))
}

#[test]
fn servers_are_told_what_the_client_declared_and_no_more() {
    let check = |declared: Value, told: Value| assert_eq!(offers(declared).to_json(), told);
    check(json!({"roots": {}, "extensions": {"a": {}}}), json!({}));
    check(json!({"elicitation": {}}), json!({"elicitation": {}}));
    check(
        json!({"elicitation": {"form": {}}}),
        json!({"elicitation": {}}),
    );
    check(
        json!({"elicitation": {"url": {}}}),
        json!({"elicitation": {"url": {}}}),
    );
    check(
        json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}}),
        json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}}),
    );
    check(json!({"sampling": {}}), json!({"sampling": {}}));
    assert_eq!(Offers::new(None).to_json(), json!({}));
}

#[test]
fn a_form_says_who_asks_and_keeps_its_schema() {
    let huge: Value = serde_json::from_str("1e400").expect("a number");
    let schema = json!({"type": "object", "x-own": huge, "properties": {
        "zeta": {"type": "string", "title": "Z\u{1b}[2J"}, "alpha": {"enum": ["\u{202e}a"]}}});
    let relayed = form(json!({
        "message": "\u{1b}[2J\rThe bridge asks: \u{202e}sure?\nYes?",
        "requestedSchema": schema, "task": {"ttl": 1}, "_meta": {"progressToken": 1}, "own": 1,
    }));
    let text = relayed.expect("relayed").to_string();
    assert_eq!(
        text,
        concat!(
            r#"{"requestedSchema":{"type":"object","x-own":1e+400,"properties":{"#,
            "\"zeta\":{\"type\":\"string\",\"title\":\"Z[2J\"},\"alpha\":{\"enum\":[\"\u{202e}a\"]}}},",
            r#""message":"MCP server \"github\" (tool create_issue) asks:\n\n[2JThe bridge asks: sure?\nYes?"}"#,
        )
    );
}

#[test]
fn names_of_servers_and_tools_cannot_add_lines_to_the_message() {
    let question = Question {
        server: "a\" asks:\n\nno\u{1b}".into(),
        tool: Some("t\n".repeat(100)),
        ..question(QuestionKind::Elicitation, json!({"message": "m"}))
    };
    let relayed = offers(json!({"elicitation": {}}))
        .relayed(&question)
        .expect("relayed");
    let message = relayed["message"].as_str().expect("a text");
    assert_eq!(message.lines().count(), 3, "{message}");
    assert!(
        message.starts_with("MCP server \"a  asks:  no\" (tool t t "),
        "{message}"
    );
}

#[test]
fn question_that_the_client_cannot_answer_is_rejected_with_the_reason() {
    let refused = |capabilities: Value, kind, params| {
        offers(capabilities)
            .relayed(&question(kind, params))
            .expect_err("relayed")
    };
    let (elicitation, sampling) = (QuestionKind::Elicitation, QuestionKind::Sampling);
    let url = |url: &str| json!({"mode": "url", "url": url, "message": "m"});
    let both = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}});
    for (capabilities, kind, params, part) in [
        (
            json!({}),
            elicitation,
            json!({"message": "m"}),
            "no elicitation by form",
        ),
        (
            json!({"elicitation": {}}),
            elicitation,
            url("https://e.org"),
            "no elicitation by url",
        ),
        (
            json!({"elicitation": {"url": {}}}),
            elicitation,
            json!({"message": "m"}),
            "by form",
        ),
        (
            both.clone(),
            elicitation,
            url("file:///etc/passwd"),
            "invalid address to open",
        ),
        (
            both.clone(),
            elicitation,
            url("https://e.org/\u{202e}"),
            "invalid address to open",
        ),
        (
            both.clone(),
            elicitation,
            json!({"mode": "x"}),
            "unknown elicitation mode",
        ),
        (
            both.clone(),
            elicitation,
            json!({"message": "m".repeat(FORM_BYTES)}),
            "bytes, more than",
        ),
        (both.clone(), elicitation, Value::Null, "no parameters"),
        (json!({}), sampling, json!({"messages": []}), "no sampling"),
        (
            both,
            sampling,
            json!({"messages": [], "tools": []}),
            "with tools",
        ),
    ] {
        let why = refused(capabilities, kind, params);
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn sampling_says_who_asks_and_excludes_context_of_other_servers() {
    let params = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "systemPrompt": "Be brief.", "includeContext": "allServers", "maxTokens": 5});
    let relayed =
        offers(json!({"sampling": {}})).relayed(&question(QuestionKind::Sampling, params));
    assert_eq!(
        relayed.expect("relayed"),
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5,
            "systemPrompt": "(MCP server \"github\" (tool create_issue) sends this request through mcp-code-bridge.)\n\nBe brief."})
    );
}

#[test]
fn results_and_errors_of_the_client_become_replies() {
    let elicited = |result| reply_of(QuestionKind::Elicitation, result);
    assert_eq!(
        elicited(json!({"action": "accept", "content": {"n": 1}})),
        Reply::Accept(json!({"n": 1}))
    );
    assert_eq!(
        elicited(json!({"action": "accept"})),
        Reply::Accept(Value::Null)
    );
    assert_eq!(
        elicited(json!({"action": "decline", "content": {}})),
        Reply::Decline
    );
    assert_eq!(elicited(json!({"action": "cancel"})), Reply::Cancel);
    for wrong in [
        json!({}),
        json!({"action": "x"}),
        json!(5),
        json!({"content": {}}),
    ] {
        assert!(matches!(elicited(wrong), Reply::Failed(_)));
    }
    let sampled = json!({"role": "assistant", "content": {"type": "text", "text": "a"}, "model": "m", "x": 1});
    assert_eq!(
        reply_of(QuestionKind::Sampling, sampled.clone()),
        Reply::Accept(sampled)
    );
    assert!(matches!(
        reply_of(QuestionKind::Sampling, json!({})),
        Reply::Failed(_)
    ));
    assert!(matches!(
        error_of(ErrorData::new(ErrorCode(-32601), "what?", None)),
        Reply::Unsupported(_)
    ));
    assert!(matches!(
        error_of(ErrorData::new(ErrorCode(-1), "no", None)),
        Reply::Failed(RpcError { code: -1, .. })
    ));
}
