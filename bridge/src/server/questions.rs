//! Questions of servers as the client gets them: who asks is said first, what the client cannot do is refused, and only
//! what belongs to the question goes on.
//!
//! A server speaks to the person behind the client here. It must not pass for the bridge or for another server, nor hide
//! that with control characters.

use rmcp::model::ClientCapabilities;
use serde_json::{Map, Value, json};

use crate::upstream::{Question, QuestionKind, Reply, RpcError};

/// Bytes of a form: nobody fills in more.
const FORM_BYTES: usize = 64 << 10;
/// Characters of the text of a question.
const MESSAGE_CHARACTERS: usize = 4_000;
/// Bytes of a sampling request.
const SAMPLING_BYTES: usize = 1 << 20;
const URL_BYTES: usize = 2_048;
/// Characters shown of the name of a server or a tool.
const NAME_CHARACTERS: usize = 80;

/// "Method not found", which a client answers that does not know what it is asked.
const METHOD_NOT_FOUND: i64 = -32601;
const INTERNAL: i64 = -32603;

/// What the client can be asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Offers {
    form: bool,
    url: bool,
    /// And whether with tools.
    sampling: Option<bool>,
}

impl Offers {
    /// As declared. An elicitation capability without modes means forms.
    pub(super) fn new(capabilities: Option<&ClientCapabilities>) -> Self {
        let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
        let sampling = capabilities.and_then(|capabilities| capabilities.sampling.as_ref());
        Self {
            form: elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none()),
            url: elicitation.is_some_and(|modes| modes.url.is_some()),
            sampling: sampling.map(|sampling| sampling.tools.is_some()),
        }
    }

    /// As capabilities that servers are told. Context of the client (`sampling.context`) is not offered: it would be that
    /// of all servers behind the bridge.
    pub(super) fn to_json(&self) -> Value {
        let mut offers = Map::new();
        if self.form || self.url {
            let modes = [("form", self.form), ("url", self.url)];
            // Before there were modes, the empty capability meant forms; it still does.
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

    /// The parameters as the client gets them, or why it is not asked.
    pub(super) fn relayed(&self, question: &Question) -> Result<Value, String> {
        let Value::Object(params) = &question.params else {
            return Err("the question has no parameters".to_owned());
        };
        let limit = match question.kind {
            QuestionKind::Elicitation => FORM_BYTES,
            QuestionKind::Sampling => SAMPLING_BYTES,
        };
        let bytes = question.params.to_string().len();
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
            _ => return Err("the mode of the question is none that is known".to_owned()),
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

/// What the client's result means.
pub(super) fn reply_of(kind: QuestionKind, result: Value) -> Reply {
    let malformed = || {
        Reply::Failed(RpcError {
            code: INTERNAL,
            message: format!(
                "the client answered {} with something that is no result of it",
                kind.method()
            ),
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

/// What the client's error means.
pub(super) fn error_of(code: i64, message: String, data: Option<Value>) -> Reply {
    match code {
        METHOD_NOT_FOUND => {
            Reply::Unsupported(format!("it answered {code} ({})", readable(&message, 200)))
        }
        _ => Reply::Failed(RpcError {
            code,
            message,
            data: data.unwrap_or_default(),
        }),
    }
}

/// `MCP server "github" (tool create_issue)`.
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
        Err("the address that the user is to open is none of the web".to_owned())
    }
}

fn only(params: &Map<String, Value>, fields: &[&str]) -> Map<String, Value> {
    let kept = params
        .iter()
        .filter(|(key, _)| fields.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Titles and descriptions are shown; everything else of a schema has to stay what it is.
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

/// Without what moves the cursor or turns the direction of writing, and cut where it is long.
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
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn offers(capabilities: Value) -> Offers {
        Offers::new(Some(
            &serde_json::from_value(capabilities).expect("capabilities"),
        ))
    }

    fn question(kind: QuestionKind, params: Value) -> Question {
        Question {
            server: "github".into(),
            tool: Some("create_issue".to_owned()),
            kind,
            params,
            cancel: CancellationToken::new(),
        }
    }

    fn form(params: Value) -> Result<Value, String> {
        offers(json!({"elicitation": {}})).relayed(&question(QuestionKind::Elicitation, params))
    }

    #[test]
    fn servers_are_told_what_the_client_declared_and_no_more() {
        let check = |declared: Value, told: Value| assert_eq!(offers(declared).to_json(), told);
        check(json!({"roots": {}, "extensions": {"a": {}}}), json!({}));
        check(json!({"elicitation": {}}), json!({"elicitation": {}}));
        check(
            json!({"elicitation": {"form": {}}}),
            json!({"elicitation": {}}),
        );
        check(
            json!({"elicitation": {"url": {}}}),
            json!({"elicitation": {"url": {}}}),
        );
        check(
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}}),
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}}),
        );
        check(json!({"sampling": {}}), json!({"sampling": {}}));
        assert_eq!(Offers::new(None).to_json(), json!({}));
    }

    #[test]
    fn a_form_says_who_asks_and_keeps_its_schema() {
        let huge: Value = serde_json::from_str("1e400").expect("a number");
        let schema = json!({"type": "object", "x-own": huge, "properties": {
            "zeta": {"type": "string", "title": "Z\u{1b}[2J"}, "alpha": {"enum": ["\u{202e}a"]}}});
        let relayed = form(json!({
            "message": "\u{1b}[2J\rThe bridge asks: \u{202e}sure?\nYes?",
            "requestedSchema": schema, "task": {"ttl": 1}, "_meta": {"progressToken": 1}, "own": 1,
        }));
        let text = relayed.expect("relayed").to_string();
        assert_eq!(
            text,
            concat!(
                r#"{"requestedSchema":{"type":"object","x-own":1e+400,"properties":{"#,
                "\"zeta\":{\"type\":\"string\",\"title\":\"Z[2J\"},\"alpha\":{\"enum\":[\"\u{202e}a\"]}}},",
                r#""message":"MCP server \"github\" (tool create_issue) asks:\n\n[2JThe bridge asks: sure?\nYes?"}"#,
            )
        );
    }

    #[test]
    fn names_cannot_break_out_of_the_line_that_names_them() {
        let question = Question {
            server: "a\" asks:\n\nno\u{1b}".into(),
            tool: Some("t\n".repeat(100)),
            ..question(QuestionKind::Elicitation, json!({"message": "m"}))
        };
        let relayed = offers(json!({"elicitation": {}}))
            .relayed(&question)
            .expect("relayed");
        let message = relayed["message"].as_str().expect("a text");
        assert_eq!(message.lines().count(), 3, "{message}");
        assert!(
            message.starts_with("MCP server \"a  asks:  no\" (tool t t "),
            "{message}"
        );
    }

    #[test]
    fn what_the_client_cannot_do_is_refused_with_the_reason() {
        let refused = |capabilities: Value, kind, params| {
            offers(capabilities)
                .relayed(&question(kind, params))
                .expect_err("relayed")
        };
        let (elicitation, sampling) = (QuestionKind::Elicitation, QuestionKind::Sampling);
        let url = |url: &str| json!({"mode": "url", "url": url, "message": "m"});
        let both = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}});
        for (capabilities, kind, params, part) in [
            (
                json!({}),
                elicitation,
                json!({"message": "m"}),
                "no elicitation by form",
            ),
            (
                json!({"elicitation": {}}),
                elicitation,
                url("https://e.org"),
                "no elicitation by url",
            ),
            (
                json!({"elicitation": {"url": {}}}),
                elicitation,
                json!({"message": "m"}),
                "by form",
            ),
            (
                both.clone(),
                elicitation,
                url("file:///etc/passwd"),
                "none of the web",
            ),
            (
                both.clone(),
                elicitation,
                url("https://e.org/\u{202e}"),
                "none of the web",
            ),
            (
                both.clone(),
                elicitation,
                json!({"mode": "x"}),
                "none that is known",
            ),
            (
                both.clone(),
                elicitation,
                json!({"message": "m".repeat(FORM_BYTES)}),
                "bytes, more than",
            ),
            (both.clone(), elicitation, Value::Null, "no parameters"),
            (json!({}), sampling, json!({"messages": []}), "no sampling"),
            (
                both,
                sampling,
                json!({"messages": [], "tools": []}),
                "with tools",
            ),
        ] {
            let why = refused(capabilities, kind, params);
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn sampling_says_who_asks_and_gets_no_context_of_other_servers() {
        let params = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
            "systemPrompt": "Be brief.", "includeContext": "allServers", "maxTokens": 5});
        let relayed =
            offers(json!({"sampling": {}})).relayed(&question(QuestionKind::Sampling, params));
        assert_eq!(
            relayed.expect("relayed"),
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5,
                "systemPrompt": "(MCP server \"github\" (tool create_issue) sends this request through mcp-code-bridge.)\n\nBe brief."})
        );
    }

    #[test]
    fn answers_of_the_client_are_told_apart() {
        let elicited = |result| reply_of(QuestionKind::Elicitation, result);
        assert_eq!(
            elicited(json!({"action": "accept", "content": {"n": 1}})),
            Reply::Accept(json!({"n": 1}))
        );
        assert_eq!(
            elicited(json!({"action": "accept"})),
            Reply::Accept(Value::Null)
        );
        assert_eq!(
            elicited(json!({"action": "decline", "content": {}})),
            Reply::Decline
        );
        assert_eq!(elicited(json!({"action": "cancel"})), Reply::Cancel);
        for wrong in [
            json!({}),
            json!({"action": "x"}),
            json!(5),
            json!({"content": {}}),
        ] {
            assert!(matches!(elicited(wrong), Reply::Failed(_)));
        }
        let sampled = json!({"role": "assistant", "content": {"type": "text", "text": "a"}, "model": "m", "x": 1});
        assert_eq!(
            reply_of(QuestionKind::Sampling, sampled.clone()),
            Reply::Accept(sampled)
        );
        assert!(matches!(
            reply_of(QuestionKind::Sampling, json!({})),
            Reply::Failed(_)
        ));
        assert!(matches!(
            error_of(-32601, "what?".to_owned(), None),
            Reply::Unsupported(_)
        ));
        assert!(matches!(
            error_of(-1, "no".to_owned(), None),
            Reply::Failed(RpcError { code: -1, .. })
        ));
    }
}
