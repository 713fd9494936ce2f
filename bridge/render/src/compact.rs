//! The default mode: the output is the answer; anything else is said only where it is news.

use std::fmt::Write as _;

use super::Payload;
use super::visible::{count, size, visible};

/// Success: output, result, `stderr:`. Otherwise the news first: status, error, exit; then what was printed.
pub(super) fn write(payload: &Payload) -> String {
    let mut text = String::with_capacity(payload.stdout.len() + payload.stderr.len() + 256);
    if let Some(note) = &payload.note {
        let _ = writeln!(text, "note: {}", visible(note));
    }
    if payload.status == "success" {
        write_stream(&mut text, None, &payload.stdout);
        if let Some(result) = &payload.result {
            start_line(&mut text);
            text.push_str(&visible(result));
        }
    } else {
        write_news(&mut text, payload);
        write_stream(&mut text, Some("stdout:"), &payload.stdout);
    }
    write_stream(&mut text, Some("stderr:"), &payload.stderr);
    if let Some(calls) = payload.calls.as_ref().filter(|_| payload.calls_are_news) {
        start_line(&mut text);
        let _ = write!(text, "tool calls: {}", visible(calls));
    }
    write_displays(&mut text, payload);
    if !payload.files.is_empty() {
        let files = payload.files.iter();
        let files: Vec<String> = files
            .map(|file| format!("{} ({})", in_line(&file.name), size(file.size)))
            .collect();
        start_line(&mut text);
        let _ = write!(text, "files in out: {}", files.join(", "));
    }
    // Some clients pass text on to an API that refuses empty blocks.
    if text.is_empty() {
        text.push_str("status: success (no output)");
    }
    text
}

fn write_news(text: &mut String, payload: &Payload) {
    let _ = write!(text, "status: {}", payload.status);
    if let (true, Some(run)) = (payload.status == "running", &payload.run) {
        let _ = write!(
            text,
            "\n{}; call with run={run:?} to wait and read on, with cancel=true too to end it",
            payload.summary.trim_start_matches("running ")
        );
    }
    if let Some(error) = &payload.error {
        let label = if needs_label(payload) { "error: " } else { "" };
        let _ = write!(text, "\n{label}{}", visible(error.trim_end_matches('\n')));
    }
    // After a signal the error names it already.
    if let Some(code) = payload.exit_code.filter(|_| payload.reason.is_none()) {
        let _ = write!(text, "\nexit: {code}");
    }
}

/// A traceback or an exception's own line speaks for itself, and so does what follows `status: timeout`.
fn needs_label(payload: &Payload) -> bool {
    match payload.status {
        "validation_error" => true,
        "error" => payload.reason.is_some(),
        _ => false,
    }
}

fn write_stream(text: &mut String, heading: Option<&str>, stream: &str) {
    if stream.is_empty() {
        return;
    }
    if let Some(heading) = heading {
        start_line(text);
        text.push_str(heading);
        text.push('\n');
    }
    text.push_str(&visible(stream));
}

/// Their kinds; they themselves follow the text.
fn write_displays(text: &mut String, payload: &Payload) {
    let mut parts: Vec<String> = payload
        .displays
        .iter()
        .map(|shown| {
            let bytes = shown.display.content.as_bytes().len() as u64;
            format!("{} ({})", shown.display.mime, size(bytes))
        })
        .collect();
    if payload.displays_left_out > 0 {
        parts.push(format!(
            "{} more that could not be shown",
            count(payload.displays_left_out)
        ));
    }
    if !parts.is_empty() {
        start_line(text);
        let _ = write!(text, "shown: {}", parts.join(", "));
    }
}

/// A name cannot begin a line, which might read as one of ours.
fn in_line(name: &str) -> String {
    visible(name).replace('\r', "\\r").replace('\n', "\\n")
}

fn start_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
