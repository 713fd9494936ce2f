//! Frames: what is read, what is refused, and that nothing panics.

use super::*;
use proptest::prelude::*;

fn parse(line: &str) -> Result<FromGuest<'_>, Error> {
    FromGuest::parse(line.as_bytes())
}

fn done_of(line: &str) -> ExecutionDone {
    match parse(line) {
        Ok(FromGuest::ExecutionDone(done)) => *done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ready_is_read_with_its_report() {
    let line = r#"{"type":"ready","protocol":1,"python":"3.14.10","pid":7,"report":{"cap_eff":"0000000000000000","cap_bnd":"0000000000000000","no_new_privs":true,"seccomp":2,"uid":65534,"gid":65534,"memory_max":536870912,"pids_max":null},"timings":{"start_ms":12.3}}"#;
    let Ok(FromGuest::Ready(ready)) = parse(line) else {
        panic!("not ready")
    };
    assert_eq!((ready.protocol, ready.python.as_str()), (1, "3.14.10"));
    assert_eq!(ready.report.memory_max, Some(536_870_912));
    assert_eq!(ready.report.pids_max, None);
    assert_eq!(ready.timings.start_ms, Some(12.3));
}

#[test]
fn output_is_text_or_base64() {
    let check = |line: &str, kind, bytes: &[u8]| {
        assert_eq!(
            parse(line).unwrap(),
            FromGuest::Output(kind, Cow::Borrowed(bytes))
        );
    };
    check(
        r#"{"type":"stdout","data":"a\n\u00e9 \ud83d\ude00"}"#,
        StreamKind::Stdout,
        "a\né 😀".as_bytes(),
    );
    check(r#"{"type":"stderr","data":""}"#, StreamKind::Stderr, b"");
    check(r#"{"data":"x","type":"stdout"}"#, StreamKind::Stdout, b"x");
    check(
        r#"{"type":"stdout","base64":"//4A"}"#,
        StreamKind::Stdout,
        b"\xff\xfe\0",
    );
}

#[test]
fn done_is_read_in_full_and_in_brief() {
    let full = done_of(
        r#"{"type":"execution_done","id":3,"status":"error","exit_code":null,"error":{"type":"KeyError","message":"'price'","traceback":"Traceback"},"result":null,"where":null,"timings":{"run_ms":1.2}}"#,
    );
    assert_eq!(
        full.error,
        Some(DoneError {
            kind: "KeyError".into(),
            message: "'price'".into(),
            traceback: "Traceback".into()
        })
    );
    let brief = done_of(
        r#"{"type":"execution_done","id":4,"status":"success","result":{"repr":"1"},"exit_code":0,"where":"cell 1, line 2"}"#,
    );
    assert_eq!(brief.result.as_deref(), Some("1"));
    assert_eq!(brief.exit_code, Some(0));
    assert_eq!(brief.place.as_deref(), Some("cell 1, line 2"));
}

#[test]
fn an_exit_status_may_have_any_size() {
    let status = |code: &str| {
        done_of(&format!(
            r#"{{"type":"execution_done","id":1,"status":"error","exit_code":{code}}}"#
        ))
        .exit_code
    };
    assert_eq!(status("-3"), Some(-3));
    assert_eq!(status("1000000000000000000000000"), Some(255));
}

#[test]
fn lone_surrogates_become_replacement_characters() {
    let done = done_of(
        r#"{"type":"execution_done","id":1,"status":"error","error":{"type":"ValueError","message":"a\ud800b"}}"#,
    );
    let message = done.error.unwrap().message;
    assert!(
        message.starts_with('a') && message.ends_with('b') && message.contains('\u{fffd}'),
        "{message:?}"
    );
}

#[test]
fn unknown_types_may_hold_anything() {
    for line in [
        r#"{"type":"unheard_of","id":[1],"data":{"x":1e400}}"#,
        r#"{"type":"","data":7}"#,
    ] {
        assert_eq!(parse(line).unwrap(), FromGuest::Unknown);
    }
}

#[test]
fn lines_that_are_not_frames_are_refused() {
    for line in [
        "",
        "{",
        "null",
        "[]",
        "7",
        r#""stdout""#,
        r"{}",
        r#"{"type":7}"#,
        r#"{"type":"display","data":"x"}"#,
        r#"{"type":"display","mime":"image/png"}"#,
        r#"{"type":"display","mime":"image/png","base64":"%"}"#,
        r#"{"type":"file","call":-1}"#,
        r#"{"type":"file","call":1,"base64":"%"}"#,
        r#"{"type":"dropped","lines":[1]}"#,
        r#"{"type":"dropped","tails":["%",""]}"#,
        r#"{"type":null}"#,
        r#"{"type":"stdout"}"#,
        r#"{"type":"stdout","data":7}"#,
        r#"{"type":"stdout","data":"a","base64":"YQ=="}"#,
        r#"{"type":"stdout","base64":"%"}"#,
        r#"{"type":"stdout","type":"stdout","data":"a"}"#,
        r#"{"type":"dropped","stdout":-1}"#,
        r#"{"type":"dropped","stdout":1.5}"#,
        r#"{"type":"dropped","stdout":99999999999999999999999}"#,
        r#"{"type":"ready","protocol":1}"#,
        r#"{"type":"exit"}"#,
        r#"{"type":"exit","code":"0"}"#,
        r#"{"type":"execution_done","id":1}"#,
        r#"{"type":"execution_done","id":1,"status":"fine"}"#,
        r#"{"type":"execution_done","id":-1,"status":"success"}"#,
        r#"{"type":"execution_done","id":1,"status":"error","error":"x"}"#,
        r#"{"type":"stdout","data":"a"}{"type":"stdout","data":"b"}"#,
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    let deep = format!(
        r#"{{"type":"x","data":{}1{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let _ = parse(&deep);
}

#[test]
fn frames_to_the_guest_are_one_line_each() {
    let mut buffer = Vec::new();
    ToGuest::Execute {
        id: 3,
        cell: 2,
        code: "a\n\0\u{2028}",
        limits: ExecuteLimits {
            output_bytes: 9,
            open_files: 64,
            text_bytes: 8,
        },
        servers: &[],
        known: &["git".to_owned()],
        failed: &[],
    }
    .encode(&mut buffer);
    ToGuest::Interrupt { id: 3 }.encode(&mut buffer);
    assert_eq!(
        String::from_utf8(buffer).unwrap(),
        "{\"type\":\"execute\",\"id\":3,\"cell\":2,\"code\":\"a\\n\\u0000\u{2028}\",\"limits\":{\"output_bytes\":9,\"open_files\":64,\"text_bytes\":8},\"known\":[\"git\"]}\n\
         {\"type\":\"interrupt\",\"id\":3}\n"
    );
}

#[test]
fn requests_keep_what_they_hold_and_bad_parameters_cost_only_the_request() {
    let line = r#"{"type":"rpc_request","id":3,"call":7,"method":"call_tool","params":{"b":1.10,"a":123456789012345678901234567890}}"#;
    let Ok(FromGuest::Request {
        id: Some(3),
        call: 7,
        method,
        params: Some(params),
    }) = parse(line)
    else {
        panic!("not read")
    };
    assert_eq!(method, "call_tool");
    assert_eq!(
        params.to_string(),
        r#"{"b":1.10,"a":123456789012345678901234567890}"#
    );
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for bad in [r#""\ud800""#, deep.as_str()] {
        let line = format!(r#"{{"type":"rpc_request","call":1,"method":"m","params":{bad}}}"#);
        assert_eq!(
            parse(&line).unwrap(),
            FromGuest::Request {
                id: None,
                call: 1,
                method: "m".into(),
                params: None
            }
        );
    }
    assert!(parse(r#"{"type":"rpc_request","call":-1,"method":"m"}"#).is_err());
    assert_eq!(
        parse(r#"{"type":"rpc_cancel","call":7}"#).unwrap(),
        FromGuest::Cancel { call: 7 }
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = FromGuest::parse(&bytes);
    }

    #[test]
    fn random_fields_of_known_types_never_panic(
        kind in prop::sample::select(vec!["ready", "stdout", "stderr", "dropped", "execution_done", "exit", "other"]),
        key in prop::sample::select(vec!["data", "base64", "id", "status", "code", "stdout", "report", "error", "result", "where"]),
        value in prop::sample::select(vec!["null", "1", "-1", "1e999", "\"\\ud800\"", "[]", "{}", "{\"repr\":1}", "true", "\"success\""]),
    ) {
        let _ = FromGuest::parse(format!(r#"{{"type":"{kind}","{key}":{value}}}"#).as_bytes());
    }

    #[test]
    fn any_output_arrives_byte_for_byte(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let line = match std::str::from_utf8(&bytes) {
            Ok(text) => serde_json::json!({"type": "stdout", "data": text}),
            Err(_) => serde_json::json!({"type": "stdout", "base64": STANDARD.encode(&bytes)}),
        };
        let line = line.to_string();
        prop_assert_eq!(parse(&line).unwrap(), FromGuest::Output(StreamKind::Stdout, Cow::Borrowed(&bytes)));
    }
}
