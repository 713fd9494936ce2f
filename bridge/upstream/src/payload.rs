//! JSON that passes through unread: results on their way to the guest, arguments on their way to a
//! server.
//!
//! Parsed into values, a megabyte of small numbers takes fifty; as text it takes one, and nothing
//! about it can change.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::redact::Redactor;

/// Results of more bytes than this are held a few at a time, in the whole bridge.
pub(super) const LARGE: usize = 1024 * 1024;
/// How many large results are held at a time.
pub(super) const LARGE_AT_ONCE: usize = 8;
/// Bytes that a message may have around its result.
pub(super) const ENVELOPE: usize = 64 * 1024;
/// Levels of nesting that are passed on: Python's parser does not take many more.
const DEEPEST: usize = 200;

/// One JSON value as text.
pub struct Payload {
    text: Box<RawValue>,
    is_too_deep: bool,
    /// Room for a large value, held until the value has been passed on.
    _claim: Option<OwnedSemaphorePermit>,
}

impl Payload {
    /// Writes a value of ours as JSON.
    pub fn of(value: &impl Serialize) -> Self {
        let text =
            serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self::from(text)
    }

    /// Takes JSON that a server sent.
    pub(super) fn new(text: Box<RawValue>) -> Self {
        Self {
            is_too_deep: is_deeper_than(DEEPEST, text.get()),
            ..Self::from(text)
        }
    }

    /// Whether it is nested deeper than any reader accepts.
    pub(super) fn is_too_deep(&self) -> bool {
        self.is_too_deep
    }

    /// Holds `claim` for as long as the value exists.
    pub(super) fn claimed(self, claim: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            _claim: claim,
            ..self
        }
    }

    /// The same value without the line ends that hand-written files have between tokens.
    #[must_use]
    pub fn one_line(self) -> Self {
        if !has_line_ends(self.get()) {
            return self;
        }
        let text = RawValue::from_string(one_line(self.get()));
        Self {
            text: text.unwrap_or_else(|_| RawValue::NULL.to_owned()),
            ..self
        }
    }

    /// Takes out the line ends between tokens, in place.
    pub(super) fn join_lines(&mut self) {
        if has_line_ends(self.get())
            && let Ok(text) = RawValue::from_string(one_line(self.get()))
        {
            self.text = text;
        }
    }

    /// The value as JSON text.
    pub fn get(&self) -> &str {
        self.text.get()
    }

    /// Parses the value; meant for small ones and for tests.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.get()).unwrap_or_default()
    }

    /// Whether the value is an object, as all results of MCP are.
    pub(super) fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    /// Whether the value is a tool's result that says `isError`. Large values are not looked at:
    /// errors are short.
    pub fn is_tool_error(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Flag {
            #[serde(rename = "isError", default)]
            is_error: bool,
        }

        self.get().len() <= LARGE
            && self.get().contains("\"isError\"")
            && serde_json::from_str(self.get()).is_ok_and(|flag: Flag| flag.is_error)
    }

    /// The same value with secrets taken out.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        if !redactor.finds_in(self.get()) {
            return self;
        }
        let mut value = self.value();
        redactor.value(&mut value);
        Self {
            text: Self::of(&value).text,
            ..self
        }
    }
}

impl From<Box<RawValue>> for Payload {
    fn from(text: Box<RawValue>) -> Self {
        Self {
            text,
            is_too_deep: false,
            _claim: None,
        }
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        Self {
            is_too_deep: self.is_too_deep,
            ..Self::from(self.text.clone())
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Payload({} bytes)", self.get().len())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

fn has_line_ends(text: &str) -> bool {
    memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_some()
}

/// `text` as one line: where it has line ends, they and the spaces between tokens are left out.
fn one_line(text: &str) -> String {
    if !has_line_ends(text) {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len());
    let mut rest = text;
    // Outside of a string up to the next quote, then inside up to the quote that ends the string.
    while let Some(quote) = rest.find('"') {
        line.extend(rest[..quote].split_ascii_whitespace());
        let end = end_of_string(&rest[quote..]);
        line.push_str(&rest[quote..quote + end]);
        rest = &rest[quote + end..];
    }
    line.extend(rest.split_ascii_whitespace());
    line
}

/// The end of the string that `text` begins with.
fn end_of_string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Whether valid JSON is nested deeper than `levels`.
pub(super) fn is_deeper_than(levels: usize, text: &str) -> bool {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(next) = memchr::memchr3(b'"', b'[', b'{', &bytes[at..]) {
        // Brackets that were closed on the way there.
        let closed = memchr::memchr2_iter(b']', b'}', &bytes[at..at + next]).count();
        depth = depth.saturating_sub(closed);
        at += next;
        if bytes[at] == b'"' {
            at += end_of_string(&text[at..]);
        } else {
            depth += 1;
            at += 1;
            if depth > levels {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_deeper_than(DEEPEST, &nested(DEEPEST)));
        assert!(is_deeper_than(DEEPEST, &nested(DEEPEST + 1)));
        assert!(!is_deeper_than(
            DEEPEST,
            &json!({"a": nested(500), "\"": "\\[["}).to_string()
        ));
        let wide: Vec<Value> = (0..1000).map(|_| json!([{}, []])).collect();
        assert!(!is_deeper_than(DEEPEST, &json!(wide).to_string()));
    }

    #[test]
    fn secrets_are_taken_out_and_nothing_else_changes() {
        let redactor = Redactor::new(["super\"secret"]);
        let payload = |text: &str| Payload::new(RawValue::from_string(text.to_owned()).unwrap());
        let text = r#"{"a":1.0,"b":[ 1e400,"\/"]}"#;
        assert_eq!(payload(text).redacted(&redactor).get(), text);
        let text = r#"{"z":1.0,"a":"x super\"secret"}"#;
        assert_eq!(
            payload(text).redacted(&redactor).get(),
            r#"{"z":1.0,"a":"x [redacted]"}"#
        );
    }

    proptest! {
        #[test]
        fn one_line_is_the_same_value(text in prop::collection::vec("[ -~\\n\\t\u{e9}]{0,12}", 0..5)) {
            let value = json!({"a": text, "b\n": [1, {"c": null}]});
            let pretty = format!("{value:#}").replace('\n', "\r\n");
            prop_assert_eq!(one_line(&pretty), value.to_string());
        }
    }
}
