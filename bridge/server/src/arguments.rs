//! The arguments of `run_python`: checked by hand, so that the model learns every mistake at once and in its own words.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::CallDefaults;
use bridge_common::similar::closest;
use bridge_session::{CODE_LIMIT, Client, RunRequest, is_session_name};
use bridge_settings::MAX_OUTPUT_TOKENS;

const NAMES: [&str; 9] = [
    "code",
    "servers",
    "timeout",
    "session",
    "reset",
    "yield_after",
    "run",
    "cancel",
    "max_output_tokens",
];

/// What a token is taken for: there is no knowing whose tokens they are.
const BYTES_PER_TOKEN: u64 = 4;

/// More names in one call are a mistake.
const MAX_SERVERS: usize = 100;

/// Longer than any name of a run.
const MAX_RUN_NAME: usize = 64;

/// Checked arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments {
    /// Empty where a run of before is meant.
    pub(super) code: String,
    /// Of the run; or for how long to wait for one of before.
    pub(super) timeout: Duration,
    /// Answer by then, and let the run go on.
    pub(super) yield_after: Option<Duration>,
    /// A run of before.
    pub(super) run: Option<String>,
    /// It is to be cancelled.
    pub(super) cancel: bool,
    pub(super) session: Option<String>,
    pub(super) reset: bool,
    pub(super) servers: Vec<String>,
    pub(super) text_bytes: u64,
}

impl Arguments {
    /// Checks them; the error names everything that is wrong.
    pub(super) fn parse(mut given: JsonObject, defaults: &CallDefaults) -> Result<Self, String> {
        let mut problems = Vec::new();
        let mut take = |name: &str| given.remove(name).filter(|value| !value.is_null());
        let (code, servers, timeout) = (take("code"), take("servers"), take("timeout"));
        let (session, reset) = (take("session"), take("reset"));
        let tokens = take("max_output_tokens");
        let (yield_after, run, cancel) = (take("yield_after"), take("run"), take("cancel"));
        let run = run_of(run, &mut problems);
        let cancel = flag_of("cancel", cancel, &mut problems);
        if run.is_some() {
            let others = [("code", &code), ("servers", &servers), ("reset", &reset)];
            let given = others.iter().filter(|(_, value)| value.is_some());
            problems.extend(given.map(|(name, _)| {
                format!("{name} cannot be given with run, which asks for a run of before")
            }));
        } else if cancel {
            problems.push("cancel needs run: the name of the run to end".to_owned());
        }
        let code = match (code, &run) {
            (None, Some(_)) => String::new(),
            (code, _) => code_of(code, &mut problems),
        };
        let servers = servers_of(servers, &mut problems);
        let yield_after = yield_after_of(yield_after, defaults, &mut problems);
        let may_yield = yield_after.is_some() && run.is_none();
        let timeout = timeout_of(timeout, defaults, may_yield, &mut problems);
        let session = session_of(session, &mut problems);
        let reset = flag_of("reset", reset, &mut problems);
        let tokens = tokens_of(tokens, defaults, &mut problems);
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
                yield_after,
                run,
                cancel,
                session,
                reset,
                servers,
                text_bytes: tokens.saturating_mul(BYTES_PER_TOKEN),
            })
        } else {
            Err(problems.join("\n"))
        }
    }

    pub(super) fn into_request(self, client: Client, cancel: CancellationToken) -> RunRequest {
        RunRequest {
            session: self.session,
            code: self.code,
            timeout: self.timeout,
            reset: self.reset,
            text_bytes: self.text_bytes,
            servers: self.servers,
            client,
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

/// A run that the client comes back for may take longer, and does unless it says otherwise.
fn timeout_of(
    value: Option<Value>,
    defaults: &CallDefaults,
    may_yield: bool,
    problems: &mut Vec<String>,
) -> Duration {
    let (usual, max) = if may_yield {
        (defaults.max_run, defaults.max_run)
    } else {
        (defaults.timeout, defaults.max_timeout)
    };
    let Some(value) = value else {
        return usual;
    };
    match whole_number(&value) {
        Some(seconds) if (1..=max.as_secs()).contains(&seconds) => Duration::from_secs(seconds),
        longer => {
            let may_be_longer =
                !may_yield && longer.is_some_and(|s| s <= defaults.max_run.as_secs());
            let hint = if may_be_longer && longer != Some(0) {
                format!("; to {} with yield_after", defaults.max_run.as_secs())
            } else {
                String::new()
            };
            problems.push(format!(
                "timeout is {}; accepted: whole seconds from 1 to {}{hint}",
                show(&value),
                max.as_secs()
            ));
            usual
        }
    }
}

/// Seconds, perhaps with a fraction. Zero answers at once.
fn yield_after_of(
    value: Option<Value>,
    defaults: &CallDefaults,
    problems: &mut Vec<String>,
) -> Option<Duration> {
    let value = value?;
    let max = defaults.max_timeout;
    let given = match &value {
        Value::Number(number) => number.as_f64(),
        _ => None,
    };
    let time = given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    if let Some(time) = time.filter(|time| *time <= max) {
        return Some(time);
    }
    problems.push(format!(
        "yield_after is {}; accepted: seconds from 0 to {}",
        show(&value),
        max.as_secs()
    ));
    None
}

/// Which runs there are is for others to know.
fn run_of(value: Option<Value>, problems: &mut Vec<String>) -> Option<String> {
    match value? {
        Value::String(name) if !name.is_empty() && name.len() <= MAX_RUN_NAME => Some(name),
        other => {
            problems.push(format!(
                "run is {}; accepted: the name of a run, or \"last\"",
                show(&other)
            ));
            // What else is wrong must not be told of a call with code.
            Some(String::new())
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

fn flag_of(name: &str, value: Option<Value>, problems: &mut Vec<String>) -> bool {
    match value {
        None => false,
        Some(Value::Bool(flag)) => flag,
        Some(other) => {
            problems.push(format!(
                "{name} is {}; accepted: true or false",
                show(&other)
            ));
            false
        }
    }
}

fn tokens_of(value: Option<Value>, defaults: &CallDefaults, problems: &mut Vec<String>) -> u64 {
    let Some(value) = value else {
        return defaults.output_tokens;
    };
    match whole_number(&value) {
        Some(tokens) if (100..=MAX_OUTPUT_TOKENS).contains(&tokens) => tokens,
        _ => {
            problems.push(format!(
                "max_output_tokens is {}; accepted: whole numbers from 100 to {MAX_OUTPUT_TOKENS}",
                show(&value)
            ));
            defaults.output_tokens
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
mod tests;
