//! The structured content: every field that is not empty, in a fixed order.

use serde_json::{Map, Value, json};

use super::rendered::{Rendered, RunView};
use bridge_session::{State, Status};

impl Rendered<'_> {
    /// The structured content of the answer.
    pub fn structured(&self) -> Value {
        let mut fields = Fields::default();
        let news = &self.news;
        let run = self.run.as_ref();
        fields.put("status", news.status.as_str());
        fields.put_text("summary", Some(&news.summary));
        fields.put_text("note", self.note());
        if let Some(run) = run {
            put_output(&mut fields, run);
        }
        fields.put_text("error", self.error());
        fields.put_text("reason", self.reason());
        if let Some(run) = run {
            put_circumstances(&mut fields, run);
        }
        Value::Object(fields.0)
    }
}

/// What the run produced.
fn put_output(fields: &mut Fields, run: &RunView<'_>) {
    let outcome = run.outcome;
    if let Some(code) = outcome.ending.exit_code() {
        fields.put("exitCode", code);
    }
    if !outcome.identity.servers.is_empty() {
        fields.put("servers", json!(outcome.identity.servers));
    }
    fields.put_text("stdout", Some(&run.stdout.text));
    fields.put_text("stderr", Some(&run.stderr.text));
    fields.put_count("stdoutDropped", run.stdout.left_out);
    fields.put_count("stderrDropped", run.stderr.left_out);
    fields.put_text("result", run.result.as_deref());
    let displays = run.displays.iter().map(|shown| {
        let bytes = shown.display.content.as_bytes().len();
        json!({"mimeType": shown.display.mime, "bytes": bytes})
    });
    fields.put_list("displays", displays.collect());
    fields.put_count("displaysLeftOut", run.displays_left_out);
    let files = run.files.iter().map(|file| {
        json!({"name": file.name, "uri": file.uri, "mimeType": file.mime, "size": file.size})
    });
    fields.put_list("files", files.collect());
}

/// What else there is to know about the run.
fn put_circumstances(fields: &mut Fields, run: &RunView<'_>) {
    let outcome = run.outcome;
    let identity = &outcome.identity;
    let status = outcome.status();
    if status == Status::Timeout {
        fields.put("timeoutSeconds", identity.timeout.as_secs());
    }
    if !outcome.calls.is_empty() {
        fields.put("toolCalls", outcome.calls.to_string());
    }
    let session = run.is_named.then_some(identity.session.as_str());
    fields.put_text("session", session);
    fields.put_text("run", identity.run.as_deref());
    // That variables are kept is worth telling only where something went wrong.
    match outcome.state() {
        State::Lost => fields.put("state", "lost"),
        State::Kept if matches!(status, Status::Success | Status::Running) => {}
        State::Kept => fields.put("state", "kept"),
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn put_text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.put(name, text);
        }
    }

    fn put_count(&mut self, name: &str, count: u64) {
        if count > 0 {
            self.put(name, count);
        }
    }

    fn put_list(&mut self, name: &str, list: Vec<Value>) {
        if !list.is_empty() {
            self.put(name, list);
        }
    }
}
