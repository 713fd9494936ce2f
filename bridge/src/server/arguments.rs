//! The arguments of `run_python`: checked by hand, so that the model learns every mistake at once and in its own words.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Face;
use crate::session::{CODE_LIMIT, Client, RunRequest};
use crate::settings::{MAX_OUTPUT_TOKENS, closest};

const NAMES: [&str; 6] = [
    "code",
    "servers",
    "timeout",
    "session",
    "reset",
    "max_output_tokens",
];

/// What a token is taken for: there is no knowing whose tokens they are.
const BYTES_PER_TOKEN: u64 = 4;

/// More names in one call are a mistake.
const MAX_SERVERS: usize = 100;

/// Checked arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) code: String,
    pub(super) timeout: Duration,
    pub(super) session: Option<String>,
    pub(super) reset: bool,
    pub(super) servers: Vec<String>,
    pub(super) text_bytes: u64,
}

impl Arguments {
    /// Checks them; the error names everything that is wrong.
    pub(super) fn parse(mut given: JsonObject, face: &Face) -> Result<Self, String> {
        let mut problems = Vec::new();
        let mut take = |name: &str| given.remove(name).filter(|value| !value.is_null());
        let (code, servers, timeout) = (take("code"), take("servers"), take("timeout"));
        let (session, reset) = (take("session"), take("reset"));
        let tokens = take("max_output_tokens");
        let code = code_of(code, &mut problems);
        let servers = servers_of(servers, &mut problems);
        let timeout = timeout_of(timeout, face, &mut problems);
        let session = session_of(session, &mut problems);
        let reset = reset_of(reset, &mut problems);
        let tokens = tokens_of(tokens, face, &mut problems);
        problems.extend(
            given
                .keys()
                .filter(|name| !NAMES.contains(&name.as_str()))
                .take(8)
                .map(|name| unknown(name)),
        );
        if problems.is_empty() {
            Ok(Self {
                code,
                timeout,
                session,
                reset,
                servers,
                text_bytes: tokens.saturating_mul(BYTES_PER_TOKEN),
            })
        } else {
            Err(problems.join("\n"))
        }
    }

    pub(super) fn into_request(self, cancel: CancellationToken) -> RunRequest {
        RunRequest {
            session: self.session,
            code: self.code,
            timeout: self.timeout,
            reset: self.reset,
            text_bytes: self.text_bytes,
            servers: self.servers,
            client: Client::default(),
            cancel,
        }
    }
}

fn code_of(value: Option<Value>, problems: &mut Vec<String>) -> String {
    let problem = match value {
        None => "code is missing: the Python source to run, a string".to_owned(),
        Some(Value::String(code)) if code.trim().is_empty() => "code is blank".to_owned(),
        Some(Value::String(code)) if code.len() > CODE_LIMIT => {
            format!(
                "code has {} bytes; at most {CODE_LIMIT} are accepted",
                code.len()
            )
        }
        Some(Value::String(code)) => match code.find('\0') {
            None => return code,
            Some(at) => {
                let line = code[..at].matches('\n').count() + 1;
                format!(
                    "code holds a NUL character in line {line}; write it as \\0 in a Python string"
                )
            }
        },
        Some(other) => format!("code is {}; accepted: a string", show(&other)),
    };
    problems.push(problem);
    String::new()
}

/// Names only; which of them there are is for others to know.
fn servers_of(value: Option<Value>, problems: &mut Vec<String>) -> Vec<String> {
    let given = match value {
        None => return Vec::new(),
        Some(Value::Array(given)) => given,
        Some(other) => {
            problems.push(format!(
                "servers is {}; accepted: an array of names",
                show(&other)
            ));
            return Vec::new();
        }
    };
    let mut names = Vec::new();
    for name in given.into_iter().take(MAX_SERVERS + 1) {
        match name {
            Value::String(name) if names.contains(&name) => {}
            Value::String(name) => names.push(name),
            other if problems.len() < 8 => problems.push(format!(
                "servers holds {}; accepted: an array of names",
                show(&other)
            )),
            _ => {}
        }
    }
    if names.len() > MAX_SERVERS {
        problems.push(format!(
            "servers has more than {MAX_SERVERS} names, the most that one call may load"
        ));
    }
    names
}

fn timeout_of(value: Option<Value>, face: &Face, problems: &mut Vec<String>) -> Duration {
    let Some(value) = value else {
        return face.timeout;
    };
    let max = face.max_timeout.as_secs();
    match whole_number(&value) {
        Some(seconds) if (1..=max).contains(&seconds) => Duration::from_secs(seconds),
        _ => {
            problems.push(format!(
                "timeout is {}; accepted: whole seconds from 1 to {max}",
                show(&value)
            ));
            face.timeout
        }
    }
}

/// JSON has one kind of number: `30.0` is a whole one, as in JSON Schema.
fn whole_number(value: &Value) -> Option<u64> {
    let Value::Number(number) = value else {
        return None;
    };
    let text = number.to_string();
    let whole = text
        .split_once('.')
        .map_or(text.as_str(), |(whole, fraction)| {
            if fraction.bytes().all(|byte| byte == b'0') {
                whole
            } else {
                ""
            }
        });
    whole.parse().ok()
}

fn session_of(value: Option<Value>, problems: &mut Vec<String>) -> Option<String> {
    match value? {
        Value::String(name) if is_session_name(&name) => Some(name),
        other => {
            problems.push(format!(
                "session is {}; accepted: up to 64 letters, digits, dots, dashes and underscores, the first a letter or a digit",
                show(&other)
            ));
            None
        }
    }
}

/// Names end up in labels and messages.
fn is_session_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn reset_of(value: Option<Value>, problems: &mut Vec<String>) -> bool {
    match value {
        None => false,
        Some(Value::Bool(reset)) => reset,
        Some(other) => {
            problems.push(format!(
                "reset is {}; accepted: true or false",
                show(&other)
            ));
            false
        }
    }
}

fn tokens_of(value: Option<Value>, face: &Face, problems: &mut Vec<String>) -> u64 {
    let Some(value) = value else {
        return face.output_tokens;
    };
    match whole_number(&value) {
        Some(tokens) if (100..=MAX_OUTPUT_TOKENS).contains(&tokens) => tokens,
        _ => {
            problems.push(format!(
                "max_output_tokens is {}; accepted: whole numbers from 100 to {MAX_OUTPUT_TOKENS}",
                show(&value)
            ));
            face.output_tokens
        }
    }
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(60).collect();
    match closest(name, NAMES) {
        Some(meant) => format!("no argument {shown:?} (did you mean {meant}?)"),
        None => format!("no argument {shown:?}; arguments: {}", NAMES.join(", ")),
    }
}

/// A value as JSON, cut where long.
fn show(value: &Value) -> String {
    let text = match value {
        // Not written out whole: it may be megabytes.
        Value::Array(_) => return "an array".to_owned(),
        Value::Object(_) => return "an object".to_owned(),
        Value::String(text) => format!("{:?}", text.chars().take(61).collect::<String>()),
        other => other.to_string(),
    };
    if text.chars().count() > 64 {
        format!("{}...", text.chars().take(60).collect::<String>())
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::settings::OutputMode;

    fn face() -> Face {
        Face {
            timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(120),
            output_mode: OutputMode::Compact,
            output_tokens: 8000,
            capabilities: "".into(),
        }
    }

    fn parse(value: &Value) -> Result<Arguments, String> {
        Arguments::parse(value.as_object().cloned().expect("an object"), &face())
    }

    #[test]
    fn the_usual_call() {
        let arguments = parse(&json!({"code": "print(1)"})).expect("accepted");
        assert_eq!(arguments.timeout, Duration::from_secs(30));
        assert_eq!((arguments.session, arguments.reset), (None, false));
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
    fn null_is_the_same_as_absent() {
        let nulls =
            json!({"code": "1", "servers": null, "timeout": null, "session": null, "reset": null});
        assert_eq!(parse(&nulls), parse(&json!({"code": "1"})));
    }

    #[test]
    fn every_mistake_is_named_in_one_answer() {
        let all = json!({"coed": "print(1)", "timeout": 0, "session": "a b", "reset": "yes", "servers": ["git", 5], "x": 1, "max_output_tokens": 99});
        insta::assert_snapshot!(parse(&all).expect_err("accepted"), @r#"
        code is missing: the Python source to run, a string
        servers holds 5; accepted: an array of names
        timeout is 0; accepted: whole seconds from 1 to 120
        session is "a b"; accepted: up to 64 letters, digits, dots, dashes and underscores, the first a letter or a digit
        reset is "yes"; accepted: true or false
        max_output_tokens is 99; accepted: whole numbers from 100 to 20000000
        no argument "coed" (did you mean code?)
        no argument "x"; arguments: code, servers, timeout, session, reset, max_output_tokens
        "#);
    }

    #[test]
    fn bad_code() {
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
    fn timeouts_of_every_shape() {
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
            assert!(
                error.ends_with("accepted: whole seconds from 1 to 120"),
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
    fn long_values_are_cut() {
        let long = "é".repeat(100_000);
        let error =
            parse(&json!({"code": "1", "session": long, long.clone(): 1})).expect_err("accepted");
        assert!(error.len() < 500, "{}", error.len());
    }

    proptest! {
        #[test]
        fn any_arguments_are_accepted_or_refused(code in ".{0,20}", timeout in any::<f64>(), name in ".{0,20}") {
            let _ = parse(&json!({"code": code, "timeout": timeout, "session": name, name.clone(): name}));
        }
    }
}
