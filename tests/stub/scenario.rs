//! What a scenario can say.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// The whole file; everything may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scenario {
    /// Done before anything is read.
    pub(crate) greeting: Vec<Step>,
    /// Answers to methods by name, in place of the usual ones. `null`: no answer at all.
    pub(crate) methods: BTreeMap<String, Option<Vec<Step>>>,
    /// Protocol revisions without `initialize` only.
    pub(crate) modern: bool,
    /// The revision that `initialize` is answered with, in place of the one asked for.
    pub(crate) version: Option<String>,
    /// Capabilities to declare.
    pub(crate) capabilities: Option<Value>,
    /// The first list of tools, raw.
    pub(crate) tools: Vec<Value>,
    /// Entries of a page of tools.
    pub(crate) page: Option<usize>,
    /// What calls of a tool do; several lists are for successive calls, the last one for all others.
    pub(crate) calls: BTreeMap<String, Vec<Vec<Step>>>,
    /// Stay alive when the input closes, and when asked to end.
    pub(crate) stubborn: bool,
    /// File to which every message received is appended, one a line, and `started` at each start.
    pub(crate) record: Option<PathBuf>,
    /// How HTTP behaves.
    pub(crate) http: Http,
}

/// How HTTP behaves.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Http {
    /// Answer with event streams in place of JSON.
    pub(crate) sse: bool,
    /// Give out session ids, and forget them after this many requests each.
    pub(crate) session: Option<usize>,
    /// Without this `Authorization` header: 401, with this challenge.
    pub(crate) authorization: Option<String>,
    pub(crate) challenge: Option<String>,
    /// Answer everything with this status.
    pub(crate) status: Option<u16>,
    /// The transport of 2024: an event stream to read from, and nothing at this address to post to.
    pub(crate) legacy: bool,
    /// End event streams before the answer, and give the answer to who resumes.
    pub(crate) interrupt: bool,
}

/// One thing to do. In texts and values `$id`, `$token`, `$arguments`, `$answer` and `$env:NAME` stand for what they say.
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
    /// Write this to the client as it is.
    Raw(String),
    /// Write these bytes (base64).
    RawBase64(String),
    /// Write so much of `x` to stdout, without a newline.
    Flood(usize),
    /// Write this many bytes to stderr.
    StderrFlood(usize),
    /// Write this to stderr.
    Stderr(String),
    /// Wait.
    SleepMs(u64),
    /// Connect to this Unix socket and wait until it is closed.
    Gate(PathBuf),
    /// Wait until the client has cancelled this request.
    UntilCancelled,
    /// Wait until this many calls wait here, then let them go, the last one first.
    Reverse(usize),
    /// End at once with this status.
    Exit(i32),
    /// End by this signal.
    Signal(i32),
    /// Close standard output and stay.
    CloseOutput,
    /// Start a process in the background that holds the standard streams, and write its id to this file.
    Spawn(Vec<String>, PathBuf),
    /// Notify: method and parameters.
    Notify(String, Value),
    /// Ask the client (method, parameters) and wait for the answer, which `$answer` is from then on.
    Ask(String, Value),
    /// From now on these are the tools.
    Tools(Vec<Value>),
}
