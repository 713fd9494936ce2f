//! Questions of servers as the client gets them: each message begins with who asks, what the client
//! did not declare is rejected, and only the fields of the question are passed on.
//!
//! Through a question, a server speaks to the person behind the client. It must not be able to pose
//! as the bridge or as another server, or to hide who asks with control characters.

use rmcp::model::{ClientCapabilities, ErrorCode, ErrorData};
use serde_json::{Map, Value, json};

use bridge_common::json;
use bridge_upstream::{Question, QuestionKind, Reply, RpcError};

/// The most bytes of a form; nobody would fill in more.
const FORM_BYTES: usize = 64 << 10;
/// The most characters of a question's text.
const MESSAGE_CHARACTERS: usize = 4_000;
/// The most bytes of a sampling request.
const SAMPLING_BYTES: usize = 1 << 20;
/// The most bytes of an address that the user is asked to open.
const URL_BYTES: usize = 2_048;
/// The most characters shown of the name of a server or tool.
const NAME_CHARACTERS: usize = 80;

/// The kinds of question that the client can be asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Offers {
    form: bool,
    url: bool,
    /// Whether sampling may use tools; `None` without sampling.
    sampling: Option<bool>,
}

impl Offers {
    /// Reads what the client declared. An elicitation capability without modes means forms.
    pub(super) fn new(capabilities: Option<&ClientCapabilities>) -> Self {
        let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
        let sampling = capabilities.and_then(|capabilities| capabilities.sampling.as_ref());
        Self {
            form: elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none()),
            url: elicitation.is_some_and(|modes| modes.url.is_some()),
            sampling: sampling.map(|sampling| sampling.tools.is_some()),
        }
    }

    /// The capabilities that servers are told. The client's context (`sampling.context`) is not
    /// among them: it would include that of all other servers behind the bridge.
    pub(super) fn to_json(&self) -> Value {
        let mut offers = Map::new();
        if self.form || self.url {
            let modes = [("form", self.form), ("url", self.url)];
            // Without modes, the capability means forms, which older servers rely on.
            let modes = modes
                .into_iter()
                .filter(|(_, offered)| self.url && *offered);
            let modes: Map<String, Value> = modes
                .map(|(mode, _)| (mode.to_owned(), json!({})))
                .collect();
            offers.insert("elicitation".to_owned(), modes.into());
        }
        if let Some(with_tools) = self.sampling {
            let modes = if with_tools {
                json!({"tools": {}})
            } else {
                json!({})
            };
            offers.insert("sampling".to_owned(), modes);
        }
        offers.into()
    }

    /// The parameters that the client gets, or why it is not asked.
    pub(super) fn relayed(&self, question: &Question) -> Result<Value, String> {
        let Value::Object(params) = &question.params else {
            return Err("the question has no parameters".to_owned());
        };
        let limit = match question.kind {
            QuestionKind::Elicitation => FORM_BYTES,
            QuestionKind::Sampling => SAMPLING_BYTES,
        };
        let bytes = json::size_of(&question.params);
        if bytes > limit {
            return Err(format!(
                "the question has {bytes} bytes, more than the {limit} that are passed on"
            ));
        }
        match question.kind {
            QuestionKind::Elicitation => self.elicitation(params, &asker(question)),
            QuestionKind::Sampling => self.sampling(params, &asker(question)),
        }
    }

    fn elicitation(&self, params: &Map<String, Value>, asker: &str) -> Result<Value, String> {
        let mode = params.get("mode").and_then(Value::as_str).unwrap_or("form");
        let fields: &[&str] = match mode {
            "form" if self.form => &["mode", "requestedSchema"],
            "url" if self.url => {
                let url = params
                    .get("url")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                check_url(url)?;
                &["mode", "url", "elicitationId"]
            }
            "form" | "url" => return Err(format!("it declared no elicitation by {mode}")),
            _ => return Err("unknown elicitation mode: use \"form\" or \"url\"".to_owned()),
        };
        let message = params
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let message = format!("{asker} asks:\n\n{}", readable(message, MESSAGE_CHARACTERS));
        let mut relayed = only(params, fields);
        relayed.insert("message".to_owned(), message.into());
        if let Some(schema) = relayed.get_mut("requestedSchema") {
            tidy(schema);
        }
        Ok(relayed.into())
    }

    fn sampling(&self, params: &Map<String, Value>, asker: &str) -> Result<Value, String> {
        let Some(with_tools) = self.sampling else {
            return Err("it declared no sampling".to_owned());
        };
        let uses_tools = params.contains_key("tools") || params.contains_key("toolChoice");
        if uses_tools && !with_tools {
            return Err("it declared no sampling with tools".to_owned());
        }
        let fields = [
            "messages",
            "modelPreferences",
            "temperature",
            "maxTokens",
            "stopSequences",
            "metadata",
            "tools",
            "toolChoice",
        ];
        let mut relayed = only(params, &fields);
        let mut prompt = format!("({asker} sends this request through mcp-code-bridge.)");
        if let Some(own) = params.get("systemPrompt").and_then(Value::as_str) {
            prompt.push_str("\n\n");
            prompt.push_str(own);
        }
        relayed.insert("systemPrompt".to_owned(), prompt.into());
        Ok(relayed.into())
    }
}

/// The reply that a server gets for the client's result.
pub(super) fn reply_of(kind: QuestionKind, result: Value) -> Reply {
    let malformed = || {
        Reply::Failed(RpcError {
            code: ErrorCode::INTERNAL_ERROR.0.into(),
            message: format!("the client sent an invalid result for {}", kind.method()),
            data: Value::Null,
        })
    };
    match (kind, result) {
        (QuestionKind::Elicitation, Value::Object(mut result)) => {
            match result.get("action").and_then(Value::as_str) {
                Some("accept") => Reply::Accept(result.shift_remove("content").unwrap_or_default()),
                Some("decline") => Reply::Decline,
                Some("cancel") => Reply::Cancel,
                _ => malformed(),
            }
        }
        (QuestionKind::Sampling, result) if result.get("content").is_some() => {
            Reply::Accept(result)
        }
        _ => malformed(),
    }
}

/// The reply that a server gets for the client's error.
pub(super) fn error_of(error: ErrorData) -> Reply {
    let (code, message) = (error.code.0.into(), error.message.into_owned());
    if error.code == ErrorCode::METHOD_NOT_FOUND {
        // The client does not support this kind of question.
        return Reply::Unsupported(format!("it answered {code} ({})", readable(&message, 200)));
    }
    Reply::Failed(RpcError {
        code,
        message,
        data: error.data.unwrap_or_default(),
    })
}

/// Who asks, as in `MCP server "github" (tool create_issue)`.
fn asker(question: &Question) -> String {
    let name = |text: &str| readable(text, NAME_CHARACTERS).replace(['"', '\n', '\t'], " ");
    let server = name(&question.server.0);
    match &question.tool {
        Some(tool) => format!("MCP server \"{server}\" (tool {})", name(tool)),
        None => format!("MCP server \"{server}\""),
    }
}

fn check_url(url: &str) -> Result<(), String> {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    if is_web && url.len() <= URL_BYTES && url.chars().all(|one| one.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(format!(
            "invalid address to open: use http or https, and at most {URL_BYTES} visible ASCII characters"
        ))
    }
}

fn only(params: &Map<String, Value>, fields: &[&str]) -> Map<String, Value> {
    let kept = params
        .iter()
        .filter(|(key, _)| fields.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Cleans titles and descriptions, which are shown; the rest of a schema must stay as it is.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "title" || key == "description" => {
                        *text = readable(text, MESSAGE_CHARACTERS);
                    }
                    _ => tidy(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// The text without control characters and marks that turn the direction of writing, cut where it
/// is long.
pub(super) fn readable(text: &str, most: usize) -> String {
    let is_hidden = |one: char| {
        (one.is_control() && !matches!(one, '\n' | '\t'))
            || matches!(one, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = text.chars().filter(|one| !is_hidden(*one));
    let mut kept: String = shown.by_ref().take(most).collect();
    if shown.next().is_some() {
        kept.push_str("...");
    }
    kept
}

#[cfg(test)]
mod tests;
