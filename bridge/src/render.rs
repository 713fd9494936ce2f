//! What the model and the person read: one payload per call, as structured content and as text in two modes.
//!
//! The first line carries the news; nothing that could be left out is said. Knows outcomes, not how they came about.

mod compact;
mod toon;
mod visible;

use serde_json::{Map, Value};

use crate::session::{Captured, RunError, RunOutcome, State, Status};
use crate::settings::OutputMode;

pub use visible::{count, size, visible};

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
    /// Standard output; bytes that are not UTF-8 are shown as `\xNN`.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// Bytes of stdout, and of stderr, beyond the limit.
    pub dropped: (u64, u64),
    /// The limit that they were beyond.
    pub output_limit: u64,
    /// `repr` of a bare last expression.
    pub result: Option<String>,
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
    /// What became of tool calls, where that is news.
    pub calls: Option<String>,
    /// Its name, where the run was left running.
    pub run: Option<String>,
}

impl Payload {
    /// Of a run. `named` says whether the call named its session.
    pub fn of_run(outcome: RunOutcome, named: bool, output_limit: u64) -> Self {
        let lost = outcome.state == State::Lost;
        let success = outcome.status == Status::Success;
        let (stdout, stdout_dropped) = text(outcome.stdout);
        let (stderr, stderr_dropped) = text(outcome.stderr);
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
            dropped: (stdout_dropped, stderr_dropped),
            output_limit,
            result: outcome.result,
            error,
            reason,
            timeout_seconds: (outcome.status == Status::Timeout)
                .then_some(outcome.timeout.as_secs()),
            session: named.then_some(outcome.session),
            state: (lost || !(success || is_running)).then_some(if lost { "lost" } else { "kept" }),
            note: outcome.note,
            calls: outcome.calls,
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
    pub fn into_structured(self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        put("status", self.status.into());
        put_text(&mut put, "summary", Some(self.summary));
        put_text(&mut put, "note", self.note);
        if let Some(code) = self.exit_code {
            put("exitCode", code.into());
        }
        if !self.servers.is_empty() {
            put("servers", self.servers.into());
        }
        put_text(&mut put, "stdout", Some(self.stdout));
        put_text(&mut put, "stderr", Some(self.stderr));
        for (name, bytes) in [
            ("stdoutDropped", self.dropped.0),
            ("stderrDropped", self.dropped.1),
        ] {
            if bytes > 0 {
                put(name, bytes.into());
            }
        }
        put_text(&mut put, "result", self.result);
        put_text(&mut put, "error", self.error);
        put_text(&mut put, "reason", self.reason);
        if let Some(seconds) = self.timeout_seconds {
            put("timeoutSeconds", seconds.into());
        }
        let calls = self
            .calls
            .map(|calls| calls.trim_start_matches("tool calls: ").to_owned());
        put_text(&mut put, "toolCalls", calls);
        put_text(&mut put, "session", self.session);
        put_text(&mut put, "run", self.run);
        put_text(&mut put, "state", self.state.map(str::to_owned));
        Value::Object(fields)
    }
}

fn put_text(put: &mut impl FnMut(&str, Value), name: &str, text: Option<String>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        put(name, Value::String(text));
    }
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

/// Captured bytes as text, and how many were dropped. A character cut at the limit counts as dropped whole.
fn text(mut captured: Captured) -> (String, u64) {
    if captured.dropped > 0
        && let Err(error) = std::str::from_utf8(&captured.bytes)
        && error.error_len().is_none()
    {
        captured.dropped += (captured.bytes.len() - error.valid_up_to()) as u64;
        captured.bytes.truncate(error.valid_up_to());
    }
    (visible::decode(captured.bytes), captured.dropped)
}

#[cfg(test)]
mod tests;
