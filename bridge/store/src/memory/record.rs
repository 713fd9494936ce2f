//! One file: `key`, `value`, `metadata`, `created_at`, `updated_at` as the predecessor has them, then `provenance`, which
//! older readers ignore. The value stays text, so reading cannot change it.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

use super::Change;
use super::index::Info;
use crate::{Origin, Timestamp};

/// Fields with a meaning of their own.
const KNOWN: [&str; 6] = [
    "key",
    "value",
    "metadata",
    "created_at",
    "updated_at",
    "provenance",
];

/// A memory that was read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Box<RawValue>,
    /// The metadata.
    pub metadata: Value,
    /// When it was created, in seconds since 1970.
    pub created_at: Value,
    /// When it was last changed, in seconds since 1970.
    pub updated_at: Value,
    /// The provenance: `session`, `run`, `time`.
    pub provenance: Value,
    /// The version: a hash of the file.
    pub version: String,
    /// Other fields that the file has.
    rest: Map<String, Value>,
}

impl Loaded {
    /// Whether this is the memory of the key.
    pub(super) fn is_of(&self, key: &str) -> bool {
        self.key.trim() == key
    }
}

/// The fields of a file, with its value as `V`.
#[derive(Deserialize)]
pub(super) struct Fields<V> {
    #[serde(default)]
    key: Option<String>,
    value: V,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    created_at: Value,
    #[serde(default)]
    updated_at: Value,
    #[serde(default)]
    provenance: Value,
}

/// The file without its value, which must exist nevertheless.
pub(super) type Head = Fields<IgnoredAny>;
/// The whole file.
pub(super) type Parsed = Fields<Box<RawValue>>;

impl<V: DeserializeOwned> Fields<V> {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let bytes = unmarked(bytes);
        serde_json::from_slice(bytes).or_else(|error| {
            // The predecessor wrote what Python's encoder writes.
            serde_json::from_slice(&plain(bytes)).map_err(|_| explain(bytes, &error))
        })
    }
}

impl Head {
    pub(super) fn into_info(self, file: &str, size: u64, modified: Timestamp) -> Info {
        let modified = modified.epoch();
        Info {
            key: self.key.unwrap_or_else(|| stem(file)),
            metadata: metadata(self.metadata),
            created_at: time(self.created_at, modified),
            updated_at: time(self.updated_at, modified),
            provenance: self.provenance,
            size,
        }
    }
}

impl Parsed {
    /// `modified` is used for times that the file does not have.
    pub(super) fn into_loaded(self, file: &str, bytes: &[u8], modified: Timestamp) -> Loaded {
        // Other fields belong to somebody else; they are dropped only if they cannot be represented.
        let rest = serde_json::from_slice(unmarked(bytes));
        let rest: Map<String, Value> = rest
            .or_else(|_| serde_json::from_slice(&plain(unmarked(bytes))))
            .unwrap_or_default();
        let modified = modified.epoch();
        Loaded {
            key: self.key.unwrap_or_else(|| stem(file)),
            value: self.value,
            metadata: metadata(self.metadata),
            created_at: time(self.created_at, modified),
            updated_at: time(self.updated_at, modified),
            provenance: self.provenance,
            version: version(bytes),
            rest: rest
                .into_iter()
                .filter(|(name, _)| !KNOWN.contains(&name.as_str()))
                .collect(),
        }
    }
}

/// Identifies the content of a file.
pub(super) fn version(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    hex::encode(&digest[..12])
}

/// The text of a file after a change.
pub(super) fn compose(
    key: &str,
    change: &Change,
    before: Option<&Loaded>,
    origin: &Origin,
    now: Timestamp,
) -> String {
    let epoch = Number::from_f64(now.epoch()).map_or(Value::Null, Value::Number);
    let metadata = change
        .metadata
        .clone()
        .or_else(|| before.map(|before| before.metadata.clone()));
    let mut record = Map::new();
    // Written as before: some readers compare it with what they have.
    let key = before.map_or(key, |before| &before.key);
    record.insert("key".to_owned(), key.into());
    record.insert("value".to_owned(), change.value.clone());
    record.insert(
        "metadata".to_owned(),
        self::metadata(metadata.unwrap_or_default()),
    );
    record.insert(
        "created_at".to_owned(),
        before.map_or_else(|| epoch.clone(), |before| before.created_at.clone()),
    );
    record.insert("updated_at".to_owned(), epoch);
    record.insert("provenance".to_owned(), origin.to_json(now));
    record.extend(before.map(|before| before.rest.clone()).unwrap_or_default());
    let mut text = serde_json::to_string_pretty(&Value::Object(record)).unwrap_or_default();
    text.push('\n');
    text
}

/// Some editors write a byte order mark.
fn unmarked(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// JSON from what Python's encoder writes for numbers that JSON does not have: infinities become numbers that are read
/// as infinities, and NaN becomes null.
fn plain(bytes: &[u8]) -> Vec<u8> {
    const WORDS: [(&[u8], &[u8]); 2] = [(b"NaN", b"null"), (b"Infinity", b"1e999")];
    let mut made = Vec::with_capacity(bytes.len() + 16);
    let mut rest = bytes;
    let mut in_string = false;
    while let Some((&byte, after)) = rest.split_first() {
        let word = WORDS
            .iter()
            .find(|(word, _)| !in_string && rest.starts_with(word));
        if let Some((word, instead)) = word {
            made.extend_from_slice(instead);
            rest = &rest[word.len()..];
            continue;
        }
        made.push(byte);
        rest = after;
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                if let Some((&escaped, after)) = rest.split_first() {
                    made.push(escaped);
                    rest = after;
                }
            }
            _ => {}
        }
    }
    made
}

fn explain(bytes: &[u8], error: &serde_json::Error) -> String {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return "it is empty".to_owned();
    }
    format!("not a JSON object with a value: {error}")
}

fn stem(file: &str) -> String {
    file.trim_end_matches(".json").to_owned()
}

fn metadata(value: Value) -> Value {
    if value.is_null() {
        Value::Object(Map::new())
    } else {
        value
    }
}

fn time(value: Value, otherwise: f64) -> Value {
    if value.is_number() {
        return value;
    }
    Number::from_f64(otherwise).map_or(Value::Null, Value::Number)
}
