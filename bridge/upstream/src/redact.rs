//! Takes configured secrets out of everything that is shown, by value: lists of key names always
//! miss some.
//!
//! A value is found as it is and in the encodings that it usually leaks in: base64 at any
//! alignment, URL escapes, JSON escapes, hexadecimal.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

use bridge_catalog::SHORTEST_SECRET;

/// What is shown in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Finds and replaces secrets. Cheap to clone.
#[derive(Clone, Default)]
pub struct Redactor {
    searcher: Option<Arc<AhoCorasick>>,
}

impl Redactor {
    /// Hides `secrets`; values shorter than [`SHORTEST_SECRET`] and public ones are passed over.
    ///
    /// # Panics
    /// Panics only with gigabytes of secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut needles = BTreeSet::new();
        for secret in secrets {
            for part in parts(secret) {
                needles.extend(spellings(part));
            }
        }
        needles.retain(|needle| needle.len() >= SHORTEST_SECRET);
        if needles.is_empty() {
            return Self::default();
        }
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&needles)
            .expect("configuration files are bounded far below the 2^31 states that this can hold");
        Self {
            searcher: Some(Arc::new(searcher)),
        }
    }

    /// Takes secrets out of `text`.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.searcher {
            Some(searcher) if searcher.is_match(text) => {
                let mut hidden = String::with_capacity(text.len());
                searcher.replace_all_with(text, &mut hidden, |_, _, hidden| {
                    hidden.push_str(REDACTED);
                    true
                });
                Cow::Owned(hidden)
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// Whether `text`, which may be JSON, holds a secret.
    pub fn finds_in(&self, text: &str) -> bool {
        self.searcher
            .as_ref()
            .is_some_and(|searcher| searcher.is_match(text))
    }

    /// Takes secrets out of every string in `value`, keys included.
    pub fn value(&self, value: &mut Value) {
        if self.searcher.is_none() {
            return;
        }
        match value {
            Value::String(text) => {
                if let Cow::Owned(hidden) = self.text(text) {
                    *text = hidden;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(object) => {
                object.values_mut().for_each(|item| self.value(item));
                if object
                    .keys()
                    .any(|key| matches!(self.text(key), Cow::Owned(_)))
                {
                    *object = std::mem::take(object)
                        .into_iter()
                        .map(|(key, item)| (self.text(&key).into_owned(), item))
                        .collect();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Redactor(..)")
    }
}

/// The value itself, and the token behind a scheme: `Bearer abc` leaks as `abc` too.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let secret = secret.trim();
    std::iter::once(secret)
        .chain(secret.split_whitespace())
        .filter(|part| part.len() >= SHORTEST_SECRET && !is_public(part))
}

/// Whether a value stands in many environments, is found everywhere and gives nothing away.
fn is_public(value: &str) -> bool {
    const WORDS: [&str; 12] = [
        "production",
        "development",
        "localhost",
        "127.0.0.1",
        "disabled",
        "enabled",
        "warning",
        "critical",
        "us-east-1",
        "us-west-2",
        "eu-west-1",
        "application/json",
    ];
    let word = value.to_ascii_lowercase();
    WORDS.contains(&word.as_str())
        || std::path::Path::new(value).is_absolute()
        || is_plain_address(value)
}

/// Whether a value is an address without credentials and query.
fn is_plain_address(value: &str) -> bool {
    let rest = value
        .strip_prefix("http://")
        .or_else(|| value.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        !rest.contains(['@', '?', '#', '=']) && rest.split('/').all(|part| part.len() < 20)
    })
}

fn spellings(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let json = Value::from(secret).to_string();
    let mut spellings = vec![
        secret.to_owned(),
        json[1..json.len() - 1].to_owned(),
        json[1..json.len() - 1].replace('/', "\\/"),
        escaped(&json[1..json.len() - 1]),
        percent(bytes, false),
        percent(bytes, true),
        hex::encode(bytes),
    ];
    // Within a longer text (`user:secret`) the base64 of a secret depends on how many bytes go
    // before it, modulo 3.
    for before in 0..3 {
        let mut padded = vec![0; before];
        padded.extend_from_slice(bytes);
        let first = [0, 2, 3][before];
        let last = padded.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&padded);
            spellings.push(encoded[first..last].to_owned());
        }
    }
    spellings
}

/// A JSON string as servers write it that keep to ASCII.
fn escaped(json: &str) -> String {
    use std::fmt::Write as _;
    json.encode_utf16().fold(String::new(), |mut text, unit| {
        let _ = match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => write!(text, "{}", char::from(byte)),
            _ => write!(text, "\\u{unit:04x}"),
        };
        text
    })
}

fn percent(bytes: &[u8], lower: bool) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, &byte| {
        let _ = match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                write!(text, "{}", char::from(byte))
            }
            _ if lower => write!(text, "%{byte:02x}"),
            _ => write!(text, "%{byte:02X}"),
        };
        text
    })
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "ghp_A1b2/C3+d4 e5";

    #[test]
    fn a_secret_is_hidden_in_every_usual_spelling() {
        let redactor = Redactor::new([TOKEN]);
        for text in [
            format!("token {TOKEN}!"),
            format!("?key={}", percent(TOKEN.as_bytes(), false)),
            json!({ "error": TOKEN }).to_string(),
            STANDARD.encode(TOKEN),
            URL_SAFE_NO_PAD.encode(TOKEN),
            hex::encode(TOKEN.as_bytes()),
        ] {
            let hidden = redactor.text(&text);
            assert!(hidden.contains(REDACTED), "{text} became {hidden}");
            assert!(!hidden.contains("A1b2"), "{text} became {hidden}");
        }
    }

    #[test]
    fn the_token_behind_its_scheme_is_a_secret_too() {
        let redactor = Redactor::new(["Bearer sk-12345678"]);
        assert_eq!(redactor.text("401 for sk-12345678"), "401 for [redacted]");
        assert_eq!(redactor.text("Bearer of news"), "Bearer of news");
    }

    #[test]
    fn short_and_public_values_are_left_alone() {
        let redactor = Redactor::new([
            "1234567",
            "production",
            "/usr/local/bin",
            "http://localhost:8080/mcp",
        ]);
        for text in [
            "1234567",
            "in production",
            "/usr/local/bin/x",
            "http://localhost:8080/mcp",
        ] {
            assert_eq!(redactor.text(text), text);
        }
        let redactor = Redactor::new(["https://x.test/?api_key=1"]);
        assert_eq!(
            redactor.text("GET https://x.test/?api_key=1"),
            "GET [redacted]"
        );
    }

    #[test]
    fn values_are_walked_and_otherwise_unchanged() {
        let redactor = Redactor::new(["supersecret"]);
        let mut value = json!({"z": ["a supersecret"], "supersecret": 1, "a": 1.5});
        redactor.value(&mut value);
        assert_eq!(
            value.to_string(),
            r#"{"z":["a [redacted]"],"[redacted]":1,"a":1.5}"#
        );
    }

    proptest! {
        #[test]
        fn no_alignment_of_base64_leaks(before in "[ -~]{0,9}", secret in "[a-zA-Z0-9]{12,40}", after in "[ -~]{0,9}") {
            let redactor = Redactor::new([secret.as_str()]);
            let encoded = STANDARD.encode(format!("{before}{secret}{after}"));
            prop_assert!(redactor.text(&encoded).contains(REDACTED));
        }
    }
}
