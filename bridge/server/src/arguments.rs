//! The arguments of a run, with one check for the tool and for the command line. Its error names
//! every mistake at once, each in terms of the argument as it was given.

mod json;

use std::time::Duration;

use rmcp::model::JsonObject;
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

/// Bytes that count as one token: the model's tokenizer is not known.
const BYTES_PER_TOKEN: u64 = 4;

/// More server names than this in one call are a mistake.
const MAX_SERVERS: usize = 100;

/// More bytes than any run's name has.
const MAX_RUN_NAME: usize = 64;

/// Mistakes of one kind that are named.
const MAX_NAMED: usize = 8;

/// One argument as given.
#[derive(Debug, Default)]
pub(super) enum Given<T> {
    #[default]
    Absent,
    Value(T),
    /// A value of another type or form, as it is shown in the error.
    Malformed(String),
}

/// The arguments as given: of the right type, or malformed, and not checked yet.
#[derive(Debug, Default)]
pub(super) struct GivenArguments {
    pub(super) code: Given<String>,
    /// Names, or another value instead of a name, as it is shown in the error.
    pub(super) servers: Given<Vec<Result<String, String>>>,
    /// A time limit in whole seconds.
    pub(super) timeout: Given<u64>,
    pub(super) session: Given<String>,
    pub(super) reset: Given<bool>,
    pub(super) yield_after: Given<Duration>,
    pub(super) run: Given<String>,
    pub(super) cancel: Given<bool>,
    pub(super) max_output_tokens: Given<u64>,
    /// Names that are not arguments.
    pub(super) unknown: Vec<String>,
}

/// Arguments that have passed the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments {
    /// Empty when the call waits for an earlier run.
    pub(super) code: String,
    /// Time limit of the run, or of waiting for an earlier one.
    pub(super) timeout: Duration,
    /// After this long the call is answered and the run goes on.
    pub(super) yield_after: Option<Duration>,
    /// Name of an earlier run to wait for.
    pub(super) run: Option<String>,
    /// Whether to cancel that run.
    pub(super) cancel: bool,
    pub(super) session: Option<String>,
    pub(super) reset: bool,
    pub(super) servers: Vec<String>,
    pub(super) text_bytes: u64,
}

impl Arguments {
    /// Reads and checks the JSON arguments of a tool call; the error names everything that is
    /// wrong.
    pub(super) fn parse(arguments: JsonObject, defaults: &CallDefaults) -> Result<Self, String> {
        Self::check(json::given(arguments), defaults)
    }

    /// Checks what was given; the error names everything that is wrong.
    pub(super) fn check(given: GivenArguments, defaults: &CallDefaults) -> Result<Self, String> {
        let mut problems = Vec::new();
        let run = check_run(&given, &mut problems);
        let cancel = check_flag("cancel", given.cancel, &mut problems);
        if cancel && run.is_none() {
            problems.push("cancel needs run: the name of the run to end".to_owned());
        }
        let code = match (given.code, &run) {
            (Given::Absent, Some(_)) => String::new(),
            (code, _) => check_code(code, &mut problems),
        };
        let servers = check_servers(given.servers, &mut problems);
        let yield_after = check_yield_after(given.yield_after, defaults, &mut problems);
        let may_yield = yield_after.is_some() && run.is_none();
        let timeout = check_timeout(given.timeout, defaults, may_yield, &mut problems);
        let session = check_session(given.session, &mut problems);
        let reset = check_flag("reset", given.reset, &mut problems);
        let tokens = check_tokens(given.max_output_tokens, defaults, &mut problems);
        problems.extend(
            given
                .unknown
                .iter()
                .take(MAX_NAMED)
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

impl<T> Given<T> {
    const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// The name of an earlier run; whether that run exists is for the sessions to say.
fn check_run(given: &GivenArguments, problems: &mut Vec<String>) -> Option<String> {
    let shown = match &given.run {
        Given::Absent => return None,
        Given::Value(name) if (1..=MAX_RUN_NAME).contains(&name.len()) => Ok(name.clone()),
        Given::Value(name) => Err(show(name)),
        Given::Malformed(shown) => Err(shown.clone()),
    };
    // A malformed name counts as one too: the other mistakes are not those of a call with code.
    let name = shown.unwrap_or_else(|shown| {
        problems.push(format!(
            "run is {shown}; accepted: the name of a run, or \"last\""
        ));
        String::new()
    });
    let others = [
        ("code", given.code.is_absent()),
        ("servers", given.servers.is_absent()),
        ("reset", given.reset.is_absent()),
    ];
    let conflicting = others.iter().filter(|(_, is_absent)| !is_absent);
    problems.extend(conflicting.map(|(name, _)| {
        format!("{name} cannot be given with run, which waits for an earlier run")
    }));
    Some(name)
}

fn check_code(code: Given<String>, problems: &mut Vec<String>) -> String {
    let problem = match code {
        Given::Absent => "code is missing: the Python source to run, a string".to_owned(),
        Given::Malformed(shown) => format!("code is {shown}; accepted: a string"),
        Given::Value(code) if code.trim().is_empty() => "code is blank".to_owned(),
        Given::Value(code) if code.len() > CODE_LIMIT => {
            let bytes = code.len();
            format!("code has {bytes} bytes; at most {CODE_LIMIT} are accepted")
        }
        Given::Value(code) => match code.find('\0') {
            None => return code,
            Some(at) => {
                let line = code[..at].matches('\n').count() + 1;
                format!(
                    "code holds a NUL character in line {line}; write it as \\0 in a Python string"
                )
            }
        },
    };
    problems.push(problem);
    String::new()
}

/// Distinct names; which servers exist is for the catalog to say.
fn check_servers(
    servers: Given<Vec<Result<String, String>>>,
    problems: &mut Vec<String>,
) -> Vec<String> {
    let given = match servers {
        Given::Absent => return Vec::new(),
        Given::Value(given) => given,
        Given::Malformed(shown) => {
            problems.push(format!("servers is {shown}; accepted: an array of names"));
            return Vec::new();
        }
    };
    let mut names = Vec::new();
    for name in given {
        match name {
            Ok(name) if names.contains(&name) => {}
            Ok(name) => names.push(name),
            Err(shown) if problems.len() < MAX_NAMED => {
                problems.push(format!(
                    "servers holds {shown}; accepted: an array of names"
                ));
            }
            Err(_) => {}
        }
    }
    if names.len() > MAX_SERVERS {
        problems.push(format!(
            "servers has more than {MAX_SERVERS} names, the most that one call may load"
        ));
    }
    names
}

/// A run that may be left running may take longer, and does unless the call says otherwise.
fn check_timeout(
    timeout: Given<u64>,
    defaults: &CallDefaults,
    may_yield: bool,
    problems: &mut Vec<String>,
) -> Duration {
    let (usual, max) = if may_yield {
        (defaults.max_run, defaults.max_run)
    } else {
        (defaults.timeout, defaults.max_timeout)
    };
    let (shown, hint) = match timeout {
        Given::Absent => return usual,
        Given::Value(seconds) if (1..=max.as_secs()).contains(&seconds) => {
            return Duration::from_secs(seconds);
        }
        Given::Value(seconds) => {
            let longest = defaults.max_run.as_secs();
            let may_be_longer = !may_yield && (1..=longest).contains(&seconds);
            let hint = may_be_longer.then(|| format!("; to {longest} with yield_after"));
            (seconds.to_string(), hint.unwrap_or_default())
        }
        Given::Malformed(shown) => (shown, String::new()),
    };
    let max = max.as_secs();
    problems.push(format!(
        "timeout is {shown}; accepted: whole seconds from 1 to {max}{hint}"
    ));
    usual
}

/// Seconds, perhaps with a fraction. Zero means an answer at once.
fn check_yield_after(
    yield_after: Given<Duration>,
    defaults: &CallDefaults,
    problems: &mut Vec<String>,
) -> Option<Duration> {
    let max = defaults.max_timeout;
    let shown = match yield_after {
        Given::Absent => return None,
        Given::Value(time) if time <= max => return Some(time),
        Given::Value(time) => time.as_secs_f64().to_string(),
        Given::Malformed(shown) => shown,
    };
    let max = max.as_secs();
    problems.push(format!(
        "yield_after is {shown}; accepted: seconds from 0 to {max}"
    ));
    None
}

fn check_session(session: Given<String>, problems: &mut Vec<String>) -> Option<String> {
    let shown = match session {
        Given::Absent => return None,
        Given::Value(name) if is_session_name(&name) => return Some(name),
        Given::Value(name) => show(&name),
        Given::Malformed(shown) => shown,
    };
    problems.push(format!(
        "session is {shown}; accepted: 1 to 64 letters, digits, \".\", \"_\" or \"-\", \
         starting with a letter or digit"
    ));
    None
}

fn check_flag(name: &str, flag: Given<bool>, problems: &mut Vec<String>) -> bool {
    match flag {
        Given::Absent => false,
        Given::Value(flag) => flag,
        Given::Malformed(shown) => {
            problems.push(format!("{name} is {shown}; accepted: true or false"));
            false
        }
    }
}

fn check_tokens(tokens: Given<u64>, defaults: &CallDefaults, problems: &mut Vec<String>) -> u64 {
    let shown = match tokens {
        Given::Absent => return defaults.output_tokens,
        Given::Value(tokens) if (100..=MAX_OUTPUT_TOKENS).contains(&tokens) => return tokens,
        Given::Value(tokens) => tokens.to_string(),
        Given::Malformed(shown) => shown,
    };
    problems.push(format!(
        "max_output_tokens is {shown}; accepted: whole numbers from 100 to {MAX_OUTPUT_TOKENS}"
    ));
    defaults.output_tokens
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(60).collect();
    match closest(name, NAMES) {
        Some(meant) => format!("no argument {shown:?} (did you mean {meant}?)"),
        None => format!("no argument {shown:?}; arguments: {}", NAMES.join(", ")),
    }
}

/// A quoted text, cut where it is long.
fn show(text: &str) -> String {
    cut(format!("{:?}", text.chars().take(61).collect::<String>()))
}

fn cut(text: String) -> String {
    if text.chars().count() > 64 {
        format!("{}...", text.chars().take(60).collect::<String>())
    } else {
        text
    }
}

#[cfg(test)]
mod tests;
