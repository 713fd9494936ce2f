//! The default mode: the output is the answer; anything else is said only where it is news.

use std::fmt::Write as _;

use super::rendered::{AnswerStatus, Rendered, RunView};
use super::visible::visible;
use bridge_common::human::{count, size};
use bridge_session::Status;

/// Success: output, result, `stderr:`. Otherwise the news first: status, error, exit; then what was
/// printed.
pub(super) fn write(answer: &Rendered<'_>) -> String {
    let printed = |run: &RunView<'_>| run.stdout.text.len() + run.stderr.text.len();
    let mut text = String::with_capacity(answer.run.as_ref().map_or(0, printed) + 256);
    if let Some(note) = answer.note() {
        let _ = writeln!(text, "note: {}", visible(note));
    }
    let is_success = answer.news.status == AnswerStatus::Run(Status::Success);
    if !is_success {
        write_news(&mut text, answer);
    }
    if let Some(run) = &answer.run {
        let heading = (!is_success).then_some("stdout:");
        write_stream(&mut text, heading, &run.stdout.text);
        if let Some(result) = run.result.as_ref().filter(|_| is_success) {
            start_line(&mut text);
            text.push_str(&visible(result));
        }
        write_stream(&mut text, Some("stderr:"), &run.stderr.text);
        if let Some(calls) = answer.tool_call_news() {
            start_line(&mut text);
            let _ = write!(text, "tool calls: {}", visible(&calls));
        }
        write_displays(&mut text, run);
        write_files(&mut text, run);
    }
    // Some clients pass text on to an API that refuses empty blocks.
    if text.is_empty() {
        text.push_str("status: success (no output)");
    }
    text
}

fn write_news(text: &mut String, answer: &Rendered<'_>) {
    let news = &answer.news;
    let _ = write!(text, "status: {}", news.status.as_str());
    let outcome = answer.run.as_ref().map(|run| run.outcome);
    if news.status == AnswerStatus::Run(Status::Running)
        && let Some(identity) = outcome.map(|outcome| &outcome.identity)
        && let Some(run) = &identity.run
    {
        let _ = write!(
            text,
            "\nfor {} s; call with run={run:?} to wait and read on, with cancel=true too to end it",
            identity.elapsed.as_secs()
        );
    }
    if let Some(error) = &news.error {
        let label = if needs_label(answer) { "error: " } else { "" };
        let _ = write!(text, "\n{label}{}", visible(error.trim_end_matches('\n')));
    }
    // After a signal the error names it already.
    let exit_code = outcome.and_then(|outcome| outcome.ending.exit_code());
    if let Some(code) = exit_code.filter(|_| news.reason.is_none()) {
        let _ = write!(text, "\nexit: {code}");
    }
}

/// A traceback or an exception's own line speaks for itself, and so does what follows `status:
/// timeout`.
fn needs_label(answer: &Rendered<'_>) -> bool {
    match answer.news.status {
        AnswerStatus::Invalid | AnswerStatus::Refused => true,
        AnswerStatus::Run(status) => status == Status::Error && answer.news.reason.is_some(),
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

/// Names the kinds of displays; the displays themselves follow the text.
fn write_displays(text: &mut String, run: &RunView<'_>) {
    let mut parts: Vec<String> = run
        .displays
        .iter()
        .map(|shown| {
            let bytes = shown.display.content.as_bytes().len() as u64;
            format!("{} ({})", shown.display.mime, size(bytes))
        })
        .collect();
    if run.displays_left_out > 0 {
        parts.push(format!(
            "{} more that could not be shown",
            count(run.displays_left_out)
        ));
    }
    if !parts.is_empty() {
        start_line(text);
        let _ = write!(text, "shown: {}", parts.join(", "));
    }
}

fn write_files(text: &mut String, run: &RunView<'_>) {
    let files = run.files.iter();
    let files: Vec<String> = files
        .map(|file| format!("{} ({})", in_line(&file.name), size(file.size)))
        .collect();
    if !files.is_empty() {
        start_line(text);
        let _ = write!(text, "files in out: {}", files.join(", "));
    }
}

/// A name within a line: it cannot begin a new line, which might read as one of ours.
fn in_line(name: &str) -> String {
    visible(name).replace('\r', "\\r").replace('\n', "\\n")
}

fn start_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
