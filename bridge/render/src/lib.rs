//! What the model and the person read: one payload per call, as structured content and as text in two modes.
//!
//! The first line carries the news; nothing that could be left out is said. Knows outcomes, not how they came about.

mod compact;
mod excerpt;
mod resource;
mod toon;
mod visible;

use serde_json::{Map, Value, json};

use bridge_broker::Summary;
use bridge_common::media;
use bridge_session::{Content, Display, Displays, OutFile, RunError, RunOutcome, State, Status};
use bridge_settings::OutputMode;

use excerpt::{Excerpt, Extent, Whole};

pub use resource::{FILE_TEMPLATE, display_uri, file_uri, parse_file_uri};
pub use visible::{count, size, visible};

/// Documents may have this part of an answer's text each; more is left out, for half of one is of no use.
const DOCUMENT_PART: usize = 4;

/// Everything that one call of `run_python` answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// `success`, `error`, `timeout`, `cancelled`, `running` or `validation_error`.
    pub status: &'static str,
    /// One line: what happened.
    pub summary: String,
    /// `sys.exit` status, or the guest's own.
    pub exit_code: Option<i64>,
    /// Servers that were asked for.
    pub servers: Vec<String>,
    /// Standard output, what fits of it; bytes that are not UTF-8 are shown as `\xNN`.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// Bytes of stdout, and of stderr, that did not fit.
    pub left_out: (u64, u64),
    /// What a bare last expression is: its `repr`, or a preview.
    pub result: Option<String>,
    /// Pictures and documents; they follow the text.
    pub displays: Vec<Shown>,
    /// How many more there were that could not be shown.
    pub displays_left_out: u64,
    /// Files that are new in `/workspace/out`.
    pub files: Vec<File>,
    /// What went wrong: a traceback, or a message.
    pub error: Option<String>,
    /// A stable word for errors that are no exception of the code, such as `memory_limit` or `E0`.
    pub reason: Option<String>,
    /// The time limit, where it was reached.
    pub timeout_seconds: Option<u64>,
    /// The session, where the call named one.
    pub session: Option<String>,
    /// `kept` or `lost`, where that is news.
    pub state: Option<&'static str>,
    /// Said before all else.
    pub note: Option<String>,
    /// What became of tool calls.
    pub calls: Option<String>,
    /// That is worth a line.
    pub calls_are_news: bool,
    /// Its name, where the run was left running.
    pub run: Option<String>,
}

/// Something shown, and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Names it; it is not to be had there.
    pub uri: String,
    /// What it is.
    pub display: Display,
}

/// A file that can be read as a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Below `/workspace/out`.
    pub name: String,
    /// Where it can be read.
    pub uri: String,
    /// By its name.
    pub mime: &'static str,
    /// Its bytes.
    pub size: u64,
}

impl File {
    /// One that a session offers.
    pub fn of(session: &str, file: OutFile) -> Self {
        Self {
            uri: file_uri(session, &file.path),
            mime: media::by_name(&file.path),
            size: file.size,
            name: file.path,
        }
    }
}

impl Payload {
    /// Of a run. `named` says whether the call named its session; output, result and error share `text_bytes`.
    pub fn of_run(outcome: RunOutcome, named: bool, text_bytes: u64) -> Self {
        let lost = outcome.state == State::Lost;
        let success = outcome.status == Status::Success;
        let room = usize::try_from(text_bytes).unwrap_or(usize::MAX);
        let extent = match (outcome.status, &outcome.run) {
            (Status::Running, _) => Extent::SoFar,
            // Only the rest may be here, whose lines have other numbers in the whole.
            (_, Some(_)) => Extent::Rest,
            (_, None) => Extent::All,
        };
        let cell = outcome.cell;
        let whole = |name| (!lost).then_some(Whole { name, cell, extent });
        // The smaller stream is not cut for the larger one's sake.
        let (out, err) = (outcome.stdout.total(), outcome.stderr.total());
        let err_room = room.saturating_sub(out.try_into().unwrap_or(usize::MAX));
        let err_room = err_room.max(room / 4);
        let out_room = room.saturating_sub(err_room.min(err.try_into().unwrap_or(usize::MAX)));
        let stdout = excerpt::stream(outcome.stdout, out_room, whole("runtime.last_output"));
        let stderr = excerpt::stream(
            outcome.stderr,
            err_room,
            whole("runtime.last_output.stderr"),
        );
        let (
            Excerpt {
                text: stdout,
                left_out: out,
            },
            Excerpt {
                text: stderr,
                left_out: err,
            },
        ) = (stdout, stderr);
        let (displays, displays_left_out) =
            shown(&outcome.session, outcome.cell, outcome.displays, room);
        let files = outcome.files.into_iter();
        let files = files.map(|file| File::of(&outcome.session, file)).collect();
        let (error, mut summary, reason) = match outcome.error {
            Some(error) => explain(error, outcome.status == Status::Error && !lost),
            None if success => (None, "success".to_owned(), None),
            None => (None, String::new(), None),
        };
        let is_running = outcome.status == Status::Running;
        if is_running {
            summary = format!("running for {} s", outcome.elapsed.as_secs());
        }
        if let (true, Some(code)) = (summary.is_empty(), outcome.exit_code) {
            summary = format!("exit {code}");
        }
        Self {
            status: status(outcome.status),
            summary,
            exit_code: outcome.exit_code,
            servers: outcome.servers,
            stdout,
            stderr,
            left_out: (out, err),
            result: outcome.result.map(|result| excerpt::text(result, room / 2)),
            displays,
            displays_left_out,
            files,
            error: error.map(|error| excerpt::text(error, room / 2)),
            reason,
            timeout_seconds: (outcome.status == Status::Timeout)
                .then_some(outcome.timeout.as_secs()),
            session: named.then_some(outcome.session),
            state: (lost || !(success || is_running)).then_some(if lost { "lost" } else { "kept" }),
            note: outcome.note,
            calls_are_news: is_news(&outcome.calls, success),
            calls: (!outcome.calls.is_empty()).then(|| outcome.calls.to_string()),
            run: outcome.run,
        }
    }

    /// Of a call whose arguments are wrong; nothing was run.
    pub fn invalid(message: String) -> Self {
        Self {
            status: "validation_error",
            summary: first_line(&message),
            error: Some(message),
            ..Self::default()
        }
    }

    /// Of a call that nothing was run for, for a reason that is not its own. `code` is one of `doctor`'s, or a word.
    pub fn refused(code: &str, message: String) -> Self {
        Self {
            status: "error",
            summary: first_line(&message),
            error: Some(message),
            reason: Some(code.to_owned()),
            ..Self::default()
        }
    }

    /// Anything but success is an error to the client; a run that goes on is none yet.
    pub fn is_error(&self) -> bool {
        !matches!(self.status, "success" | "running")
    }

    /// The text of the answer.
    pub fn text(&self, mode: OutputMode) -> String {
        match mode {
            OutputMode::Compact => compact::write(self),
            OutputMode::Toon => toon::write(self),
        }
    }

    /// The structured content: every field that is not empty, in a fixed order.
    pub fn structured(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        put("status", self.status.into());
        put_text(&mut put, "summary", Some(&self.summary));
        put_text(&mut put, "note", self.note.as_deref());
        if let Some(code) = self.exit_code {
            put("exitCode", code.into());
        }
        if !self.servers.is_empty() {
            put("servers", json!(self.servers));
        }
        put_text(&mut put, "stdout", Some(&self.stdout));
        put_text(&mut put, "stderr", Some(&self.stderr));
        for (name, bytes) in [
            ("stdoutDropped", self.left_out.0),
            ("stderrDropped", self.left_out.1),
        ] {
            if bytes > 0 {
                put(name, bytes.into());
            }
        }
        put_text(&mut put, "result", self.result.as_deref());
        let displays = self.displays.iter().map(|shown| {
            let bytes = shown.display.content.as_bytes().len();
            json!({"mimeType": shown.display.mime, "bytes": bytes})
        });
        put_list(&mut put, "displays", displays.collect());
        if self.displays_left_out > 0 {
            put("displaysLeftOut", self.displays_left_out.into());
        }
        let files = self.files.iter().map(|file| {
            json!({"name": file.name, "uri": file.uri, "mimeType": file.mime, "size": file.size})
        });
        put_list(&mut put, "files", files.collect());
        put_text(&mut put, "error", self.error.as_deref());
        put_text(&mut put, "reason", self.reason.as_deref());
        if let Some(seconds) = self.timeout_seconds {
            put("timeoutSeconds", seconds.into());
        }
        put_text(&mut put, "toolCalls", self.calls.as_deref());
        put_text(&mut put, "session", self.session.as_deref());
        put_text(&mut put, "run", self.run.as_deref());
        put_text(&mut put, "state", self.state);
        Value::Object(fields)
    }
}

fn put_list(put: &mut impl FnMut(&str, Value), name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        put(name, Value::Array(list));
    }
}

fn put_text(put: &mut impl FnMut(&str, Value), name: &str, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        put(name, text.into());
    }
}

/// What of the displays fits, with addresses.
fn shown(session: &str, cell: u64, displays: Displays, room: usize) -> (Vec<Shown>, u64) {
    let Displays {
        shown, left_out, ..
    } = displays;
    let all = shown.len();
    let fits = |display: &Display| match &display.content {
        Content::Image(_) => true,
        Content::Text(text) => text.len() <= room / DOCUMENT_PART,
    };
    let shown: Vec<Shown> = shown
        .into_iter()
        .filter(fits)
        .enumerate()
        .map(|(index, display)| Shown {
            uri: display_uri(session, cell, index + 1),
            display,
        })
        .collect();
    let too_large = (all - shown.len()) as u64;
    (shown, left_out.saturating_add(too_large))
}

/// Calls of code that went well are its own business, unless something became of them that it may not have noticed.
fn is_news(calls: &Summary, success: bool) -> bool {
    !calls.is_empty() && (!success || calls.is_cut_off() || calls.failed() > 0)
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::Error => "error",
        Status::Timeout => "timeout",
        Status::Cancelled => "cancelled",
        Status::Running => "running",
    }
}

/// The error as a reader wants it, one line of it, and the reason where it is none of the code's own exceptions.
fn explain(error: RunError, is_own: bool) -> (Option<String>, String, Option<String>) {
    let traceback = error.traceback.trim_end_matches('\n');
    if is_own && error.kind == "SystemExit" {
        // The code's own wish, and its exit status says it all; a message was printed already.
        return (None, String::new(), None);
    }
    if is_own {
        let line = match (error.kind.as_str(), error.message.as_str()) {
            ("", message) => message.to_owned(),
            (kind, "") => kind.to_owned(),
            (kind, message) => format!("{kind}: {message}"),
        };
        let summary = first_line(&line);
        let shown = if traceback.is_empty() {
            line
        } else {
            traceback.to_owned()
        };
        return (Some(shown), summary, None);
    }
    let summary = first_line(&error.message);
    let shown = if traceback.is_empty() {
        error.message
    } else {
        format!("{}\n{traceback}", error.message)
    };
    (
        Some(shown),
        summary,
        Some(error.kind).filter(|kind| !kind.is_empty()),
    )
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect()
}

#[cfg(test)]
mod tests;
