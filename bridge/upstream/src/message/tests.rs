//! Messages as real servers write them.

use super::*;

/// The messages in `text`, as text that can be compared.
fn read(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let show = |message| match message {
        Incoming::Response {
            id,
            outcome: Outcome::Result(result),
        } => format!("{id:?} {}", result.get()),
        Incoming::Response {
            id,
            outcome: Outcome::Error(error),
        } => {
            format!("{id:?} {} {} {}", error.code, error.message, error.data)
        }
        other => format!("{other:?}"),
    };
    Incoming::read(text, &mut |message| messages.push(show(message))).unwrap();
    messages
}

#[test]
fn sloppy_ids_are_understood() {
    for text in [
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#"{"id":"7","result":{}}"#,
        r#"{"id":7.0,"result":{},"error":null}"#,
    ] {
        assert_eq!(read(text), ["Some(7) {}"], "{text}");
    }
    for text in [
        r#"{"id":-1,"result":1}"#,
        r#"{"id":null,"result":1}"#,
        r#"{"id":"x","result":1}"#,
        r#"{"result":1}"#,
    ] {
        assert_eq!(read(text), ["None 1"], "{text}");
    }
    assert_eq!(read(r#"{"id":1,"result":null}"#), ["Some(1) null"]);
}

#[test]
fn answer_without_result_and_error_is_malformed() {
    for text in [
        r#"{"jsonrpc":"2.0","id":7}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":null}"#,
    ] {
        assert_eq!(
            read(text),
            [
                r#"Response { id: Some(7), outcome: Malformed("it has neither a result nor an error") }"#
            ],
            "{text}"
        );
    }
    // This is more likely a line of a log.
    assert_eq!(
        read(r#"{"id":7,"level":"info"}"#),
        [r#"NonProtocol("{\"id\":7,\"level\":\"info\"}")"#]
    );
}

#[test]
fn answer_behind_a_print_without_a_line_end_is_found() {
    let salvaged = |line: &str| {
        let mut messages = Vec::new();
        Incoming::salvage(line, &mut |message| messages.push(format!("{message:?}")));
        messages
    };
    let answer = r#"{"result":{},"jsonrpc":"2.0","id":1}"#;
    let one = "Response { id: Some(1), outcome: Result(Payload(2 bytes)) }";
    for line in [
        format!("50% {answer}"),
        format!("{{\"log\":{{}}}}{answer}"),
        format!("{{bad {answer}"),
        format!("{answer} done"),
    ] {
        assert_eq!(salvaged(&line), [one], "{line}");
    }
    assert_eq!(salvaged(&format!("{answer}{answer}")), [one, one]);
    for line in [
        "no message",
        r#"{"result":{},"id":1} done"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"x":NaN,"y":{"id":1}}}"#,
        &"{".repeat(100_000),
    ] {
        assert_eq!(salvaged(line).len(), 0, "{line}");
    }
}

#[test]
fn a_batch_is_several_messages() {
    assert_eq!(
        read(r#"[{"id":1,"result":1},5,{"method":"m","params":[1]}]"#),
        [
            "Some(1) 1",
            r#"NonProtocol("5")"#,
            r#"Notification { method: "m", params: Array [Number(1)] }"#
        ]
    );
}

#[test]
fn errors_of_any_shape_keep_their_text() {
    assert_eq!(read(r#"{"id":1,"error":"no"}"#), ["Some(1) -32603 no null"]);
    assert_eq!(
        read(r#"{"id":1,"error":{"code":"x","message":["a"]}}"#),
        [r#"Some(1) -32603 ["a"] null"#]
    );
    assert_eq!(
        read(r#"{"id":1,"error":{"code":-5,"message":"m","data":{"a":1}}}"#),
        [r#"Some(1) -5 m {"a":1}"#]
    );
    let data = "1,".repeat(ERROR_BYTES);
    assert_eq!(
        read(&format!(
            r#"{{"id":1,"error":{{"code":-5,"message":"m","data":[{data}1]}}}}"#
        )),
        [r#"Some(1) -5 "m" null"#]
    );
}

#[test]
fn results_are_not_touched() {
    let text = r#"{"z":123456789012345678901234567890,"a":1.10, "m":1e400}"#;
    assert_eq!(
        read(&format!(r#"{{"id":1,"result":{text}}}"#)),
        [format!("Some(1) {text}")]
    );
    let deep = format!(
        r#"{{"id":1,"result":{}{}}}"#,
        "[".repeat(3000),
        "]".repeat(3000)
    );
    Incoming::read(&deep, &mut |message| {
        let Incoming::Response {
            outcome: Outcome::Result(result),
            ..
        } = message
        else {
            panic!("{message:?}")
        };
        assert!(result.is_too_deep());
    })
    .unwrap();
}

#[test]
fn large_questions_are_refused_unread() {
    let text = "x".repeat(PARAMS_BYTES);
    let read = read(&format!(r#"{{"id":1,"method":"m","params":["{text}"]}}"#));
    assert!(
        read[0].contains("m with 1048580 bytes of parameters"),
        "{}",
        &read[0][..100]
    );
}

#[test]
fn a_request_carries_its_payload_unread() {
    let payload = Payload::new(RawValue::from_string(r#"{"b":1.0,"a":[]}"#.to_owned()).unwrap());
    let params = Params {
        fields: Map::new(),
        payload: Some(("arguments", payload)),
    };
    assert_eq!(
        params.clone().into_text(),
        r#"{"arguments":{"b":1.0,"a":[]}}"#
    );
    let params = Params {
        fields: Map::from_iter([("name".to_owned(), json!("t"))]),
        ..params
    };
    let message = Outgoing::Request {
        id: 3,
        method: "tools/call",
        params,
    };
    assert_eq!(
        message.into_text(),
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{"b":1.0,"a":[]}}}"#
    );
}
