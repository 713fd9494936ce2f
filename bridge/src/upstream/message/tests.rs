//! Messages as real servers write them.

use super::*;

/// As text, which can be compared.
fn read(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let show = |message| match message {
        Incoming::Answer {
            id,
            answer: Answer::Result(result),
        } => format!("{id:?} {}", result.get()),
        Incoming::Answer {
            id,
            answer: Answer::Error(error),
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
fn a_batch_is_several_messages() {
    assert_eq!(
        read(r#"[{"id":1,"result":1},5,{"method":"m","params":[1]}]"#),
        [
            "Some(1) 1",
            r#"Junk("5")"#,
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
    assert!(read(&deep)[0].contains("nested too deeply"));
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

#[test]
fn ids_are_found_in_both_habits_and_never_inside_the_result() {
    let found = |text: &str| {
        sniff_id(
            &text.as_bytes()[..text.len().min(200)],
            &text.as_bytes()[text.len().saturating_sub(200)..],
        )
    };
    assert_eq!(
        found(r#"{"jsonrpc":"2.0","id":12,"result":{"x":"....."#),
        Some(12)
    );
    assert_eq!(
        found(r#"{"result":{"x":"..."},"jsonrpc":"2.0","id":12}"#),
        Some(12)
    );
    assert_eq!(
        found(r#"{"result":{"x":"..."},"id":"12","jsonrpc":"2.0"}"#),
        Some(12)
    );
    assert_eq!(found(r#"{"result":{"x":"...","id":99}}"#), None);
    assert_eq!(found(r#"{"result":{"id":99,"x":"..."#), None);
    assert_eq!(found("Starting..."), None);
}
