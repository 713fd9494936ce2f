//! The content of a scenario.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// A scenario file; every field is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scenario {
    /// Steps before the first message is read.
    pub(crate) greeting: Vec<Step>,
    /// Answers to methods by name, instead of the usual ones. `null`: no answer at all.
    pub(crate) methods: BTreeMap<String, Option<Vec<Step>>>,
    /// Whether only protocol revisions without `initialize` are spoken.
    pub(crate) modern: bool,
    /// The revision in the answer to `initialize`, instead of the requested one.
    pub(crate) version: Option<String>,
    /// Capabilities that the server declares.
    pub(crate) capabilities: Option<Value>,
    /// The initial list of tools, as raw JSON.
    pub(crate) tools: Vec<Value>,
    /// Number of tools on a page of the list.
    pub(crate) page: Option<usize>,
    /// The steps of each tool's calls. Several lists are for successive calls, the last one for all
    /// later calls.
    pub(crate) calls: BTreeMap<String, Vec<Vec<Step>>>,
    /// Stay alive when the input closes, and when asked to end.
    pub(crate) stubborn: bool,
    /// File to which each received message is appended as a line, and `started` at each start.
    pub(crate) record: Option<PathBuf>,
    /// How the HTTP transport behaves.
    pub(crate) http: Http,
}

/// How the HTTP transport behaves.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Http {
    /// Answer with event streams instead of JSON.
    pub(crate) sse: bool,
    /// Issue session IDs, and forget each after this many requests.
    pub(crate) session: Option<usize>,
    /// Answer requests without this `Authorization` header with 401 and this challenge.
    pub(crate) authorization: Option<String>,
    pub(crate) challenge: Option<String>,
    /// Answer every request with this status.
    pub(crate) status: Option<u16>,
    /// Behave like the transport of 2024: an event stream to read from; posts to
    /// this address are rejected.
    pub(crate) legacy: bool,
    /// End event streams before the answer, and give the answer to a client that resumes.
    pub(crate) interrupt: bool,
}

/// One step. In texts and values, `$id`, `$token`, `$arguments`, `$answer` and `$env:NAME` are
/// replaced.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// Answer with this result.
    Result(Value),
    /// Answer with this error object.
    Error(Value),
    /// Answer with the arguments, as structured content.
    Echo,
    /// Answer with a text of this many bytes.
    Big(usize),
    /// Write this text to the client as it is.
    Raw(String),
    /// Write these bytes, given in Base64.
    RawBase64(String),
    /// Write this many `x` to stdout, without a newline.
    Flood(usize),
    /// Write this many bytes to stderr.
    StderrFlood(usize),
    /// Write this text to stderr.
    Stderr(String),
    /// Wait for this many milliseconds.
    SleepMs(u64),
    /// Connect to this Unix socket and wait until the other side closes it.
    Gate(PathBuf),
    /// Wait until the client has cancelled this request.
    UntilCancelled,
    /// Wait until this many calls wait here, then release them, the last one first.
    Reverse(usize),
    /// Exit at once with this status.
    Exit(i32),
    /// End by this signal.
    Signal(i32),
    /// Close standard output and stay.
    CloseOutput,
    /// Start a background process that holds the standard streams, and write its ID to this file.
    Spawn(Vec<String>, PathBuf),
    /// Send a notification with this method and these parameters.
    Notify(String, Value),
    /// Send the client a request (method, parameters) and wait for the answer, which `$answer` then
    /// stands for.
    Ask(String, Value),
    /// Replace the list of tools.
    Tools(Vec<Value>),
}
