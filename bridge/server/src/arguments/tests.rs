//! Arguments of every form, and the errors that name the wrong ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use bridge_settings::OutputMode;

fn defaults() -> CallDefaults {
    CallDefaults {
        timeout: Duration::from_secs(30),
        max_timeout: Duration::from_secs(120),
        max_run: Duration::from_secs(3600),
        output_mode: OutputMode::Compact,
        output_tokens: 8000,
        capabilities: "".into(),
    }
}

fn parse(value: &Value) -> Result<Arguments, String> {
    Arguments::parse(value.as_object().cloned().expect("an object"), &defaults())
}

#[test]
fn usual_call_is_accepted_with_defaults() {
    let arguments = parse(&json!({"code": "print(1)"})).expect("accepted");
    assert_eq!(arguments.timeout, Duration::from_secs(30));
    assert_eq!((arguments.session, arguments.reset), (None, false));
    assert_eq!((arguments.yield_after, arguments.run), (None, None));
    assert_eq!(arguments.text_bytes, 32_000);
    let all = json!({"code": "1", "servers": ["git", "git"], "timeout": 120, "session": "a.b-c_1", "reset": true, "max_output_tokens": 100});
    let arguments = parse(&all).expect("accepted");
    assert_eq!(arguments.timeout, Duration::from_secs(120));
    assert_eq!(
        (arguments.session.as_deref(), arguments.reset),
        (Some("a.b-c_1"), true)
    );
    assert_eq!(arguments.servers, ["git"]);
    assert_eq!(arguments.text_bytes, 400);
}

#[test]
fn null_counts_as_absent() {
    let nulls = json!({"code": "1", "servers": null, "timeout": null, "session": null, "reset": null, "yield_after": null, "run": null, "cancel": null, "max_output_tokens": null});
    assert_eq!(parse(&nulls), parse(&json!({"code": "1"})));
}

#[test]
fn every_mistake_is_named_in_one_answer() {
    let all = json!({"coed": "print(1)", "timeout": 0, "session": "a b", "reset": "yes", "servers": ["git", 5], "x": 1, "max_output_tokens": 99});
    insta::assert_snapshot!(parse(&all).expect_err("accepted"), @r#"
    code is missing: the Python source to run, a string
    servers holds 5; accepted: an array of names
    timeout is 0; accepted: whole seconds from 1 to 120
    session is "a b"; accepted: 1 to 64 letters, digits, ".", "_" or "-", starting with a letter or digit
    reset is "yes"; accepted: true or false
    max_output_tokens is 99; accepted: whole numbers from 100 to 20000000
    no argument "coed" (did you mean code?)
    no argument "x"; arguments: code, servers, timeout, session, reset, yield_after, run, cancel, max_output_tokens
    "#);
}

#[test]
fn wrong_code_is_named() {
    let check = |code: Value, expected: &str| {
        let text = parse(&json!({ "code": code })).expect_err("accepted");
        assert_eq!(text, expected);
    };
    check(json!(" \n\t"), "code is blank");
    check(
        json!("a\nb\0"),
        "code holds a NUL character in line 2; write it as \\0 in a Python string",
    );
    check(json!(5), "code is 5; accepted: a string");
    check(json!({"a": 1}), "code is an object; accepted: a string");
    let large = parse(&json!({"code": "x".repeat(13 << 20)})).expect_err("accepted");
    assert!(large.len() < 100, "{large}");
}

#[test]
fn timeout_must_be_whole_seconds_within_the_limit() {
    for text in [
        "0",
        "-1",
        "-0",
        "1.5",
        "121",
        "1e9",
        "99999999999999999999999",
        "\"30\"",
        "true",
        "[]",
        "0.1",
    ] {
        let value: Value = serde_json::from_str(text).expect("JSON");
        let error = parse(&json!({"code": "1", "timeout": value})).expect_err(text);
        let hint = if text == "121" {
            "; to 3600 with yield_after"
        } else {
            ""
        };
        assert!(
            error.ends_with(&format!("accepted: whole seconds from 1 to 120{hint}")),
            "{error}"
        );
    }
    for (text, seconds) in [("1", 1), ("30.0", 30), ("120", 120)] {
        let value: Value = serde_json::from_str(text).expect("JSON");
        let arguments = parse(&json!({"code": "1", "timeout": value})).expect(text);
        assert_eq!(arguments.timeout.as_secs(), seconds);
    }
}

#[test]
fn run_with_yield_after_may_take_longer() {
    let parsed = parse(&json!({"code": "1", "yield_after": 0.5})).expect("accepted");
    assert_eq!(parsed.yield_after, Some(Duration::from_millis(500)));
    assert_eq!(parsed.timeout, Duration::from_secs(3600));
    let parsed = parse(&json!({"code": "1", "yield_after": 0, "timeout": 600}));
    assert_eq!(parsed.expect("accepted").timeout, Duration::from_secs(600));
    let parsed = parse(&json!({"run": "abc", "cancel": true})).expect("accepted");
    assert_eq!((parsed.run.as_deref(), parsed.cancel), (Some("abc"), true));
    assert_eq!(parsed.timeout, Duration::from_secs(30));
    let parsed = parse(&json!({"run": "last", "session": "s", "yield_after": 1}));
    assert_eq!(parsed.expect("accepted").timeout, Duration::from_secs(30));
}

#[test]
fn earlier_run_and_new_code_exclude_each_other() {
    let check = |arguments: Value, expected: &str| {
        let error = parse(&arguments).expect_err("accepted");
        assert_eq!(error, expected, "{arguments}");
    };
    check(
        json!({"run": "a", "code": "1", "reset": true}),
        "code cannot be given with run, which waits for an earlier run\nreset cannot be given with run, which waits for an earlier run",
    );
    check(
        json!({"code": "1", "cancel": true}),
        "cancel needs run: the name of the run to end",
    );
    check(
        json!({"run": 5}),
        "run is 5; accepted: the name of a run, or \"last\"",
    );
    check(
        json!({"run": ""}),
        "run is \"\"; accepted: the name of a run, or \"last\"",
    );
    for wrong in [json!(-1), json!(121), json!("5"), json!(1e300), json!(true)] {
        let error = parse(&json!({"code": "1", "yield_after": wrong})).expect_err("accepted");
        assert!(
            error.ends_with("accepted: seconds from 0 to 120"),
            "{error}"
        );
    }
    let error = parse(&json!({"run": "a", "timeout": 600})).expect_err("accepted");
    assert!(
        error.starts_with("timeout is 600; accepted: whole seconds from 1 to 120"),
        "{error}"
    );
}

#[test]
fn long_values_are_cut() {
    let long = "é".repeat(100_000);
    let error =
        parse(&json!({"code": "1", "session": long, long.clone(): 1})).expect_err("accepted");
    assert!(error.len() < 500, "{}", error.len());
}

proptest! {
    #[test]
    fn any_arguments_are_accepted_or_rejected(code in ".{0,20}", timeout in any::<f64>(), name in ".{0,20}") {
        let _ = parse(&json!({"code": code, "timeout": timeout, "yield_after": timeout, "session": name, "run": name, name.clone(): name}));
    }
}
