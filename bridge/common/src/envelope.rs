//! What can be learnt of a JSON-RPC message that is too long or too broken to be parsed: its id, so
//! that whoever waits for it is answered instead of waiting for ever.

use serde_json::Value;

use crate::lines::Overflow;

/// What the outermost object of a message says, as far as it could be made out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that are independent of each other"
)]
pub struct Envelope {
    /// The id, where it is text or an integer as JSON-RPC wants it.
    pub id: Option<Value>,
    /// The message has an id, even if it is one that a request may not have.
    pub has_id: bool,
    /// The message has a method.
    pub has_method: bool,
    /// The message has a result or an error.
    pub has_answer: bool,
    /// The message is a list of messages.
    pub is_batch: bool,
}

impl Envelope {
    /// Reads the envelope of a whole message.
    pub fn of(message: &[u8]) -> Self {
        let mut scanner = EnvelopeScanner::default();
        scanner.feed(message);
        scanner.finish()
    }
}

/// Bytes kept of a key or an id.
const MAX_WORD: usize = 512;

/// Walks over JSON without building it or insisting on it: knows strings, and how deep it is.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the state of a byte-wise scanner"
)]
pub struct EnvelopeScanner {
    started: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The next string at depth 1 is a key.
    wants_key: bool,
    key: Vec<u8>,
    /// The value at depth 1 is that of `id`.
    in_id: bool,
    id: Vec<u8>,
    envelope: Envelope,
}

impl Overflow for EnvelopeScanner {
    type Summary = Envelope;

    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn finish(mut self) -> Envelope {
        if self.id.len() <= MAX_WORD {
            let id: Option<Value> = serde_json::from_slice(&self.id).ok();
            self.envelope.id = id.filter(|id| id.is_string() || id.is_i64());
        }
        self.envelope
    }
}

impl EnvelopeScanner {
    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.step_in_string(byte);
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 && self.wants_key {
                    self.key.clear();
                }
            }
            b'{' | b'[' => {
                if !self.started {
                    self.envelope.is_batch = byte == b'[';
                    self.wants_key = byte == b'{';
                }
                self.depth += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 && self.wants_key => self.end_key(),
            b',' if self.depth == 1 && !self.envelope.is_batch => {
                self.wants_key = true;
                self.in_id = false;
            }
            _ => {}
        }
        self.started |= !byte.is_ascii_whitespace();
        if self.in_id && !matches!(byte, b':' | b'}') {
            self.keep_id(byte);
        }
    }

    fn step_in_string(&mut self, byte: u8) {
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        }
        let is_key = self.depth == 1 && self.wants_key && self.in_string;
        if is_key && self.key.len() < MAX_WORD {
            self.key.push(byte);
        }
        if self.in_id {
            self.keep_id(byte);
        }
    }

    fn end_key(&mut self) {
        self.wants_key = false;
        match self.key.as_slice() {
            b"id" => {
                self.envelope.has_id = true;
                self.in_id = self.id.is_empty();
            }
            b"method" => self.envelope.has_method = true,
            b"result" | b"error" => self.envelope.has_answer = true,
            _ => {}
        }
    }

    fn keep_id(&mut self, byte: u8) {
        // One byte more than allowed marks the id as unusable.
        if self.id.len() <= MAX_WORD {
            self.id.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn id(message: &str) -> Option<Value> {
        Envelope::of(message.as_bytes()).id
    }

    #[test]
    fn id_is_found_before_and_behind_the_rest_and_never_inside_it() {
        for (message, expected) in [
            (r#"{"id":1,"method":"x","params":{bad"#, Some(json!(1))),
            (
                r#"{"params":{"id":9,"a":"\ud800"},"id":"ab-1"}"#,
                Some(json!("ab-1")),
            ),
            (r#"{"x":"\"id\":5","id" : 6 }"#, Some(json!(6))),
            (
                r#"{"result":{"x":NaN},"jsonrpc":"2.0","id":12}"#,
                Some(json!(12)),
            ),
            (r#"{"params":{"id":9}}"#, None),
            (r#"{"result":{"id":99,"x":"..."#, None),
            (r#"{"id":{"a":1}}"#, None),
            (r#"{"id":null}"#, None),
            ("id:5", None),
            ("Starting...", None),
            (r#"[{"id":1}]"#, None),
        ] {
            assert_eq!(id(message), expected, "{message}");
        }
        assert_eq!(id(&json!({"id": "x".repeat(2000)}).to_string()), None);
    }

    #[test]
    fn kind_of_a_message_is_told() {
        assert!(Envelope::of(b" [{\"id\":1}]").is_batch);
        assert!(Envelope::of(b"{\"error\":{},\"id\":1}").has_answer);
        assert!(Envelope::of(b"{\"method\":\"a\"").has_method);
        assert!(Envelope::of(b"{\"id\":null}").has_id);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Envelope::of(&bytes);
        }

        #[test]
        fn id_of_a_message_is_found(id in any::<i64>(), text in ".*", nested in any::<i64>()) {
            let params = json!({"id": nested, "code": text});
            let message = json!({"params": params, "id": id, "method": "m"}).to_string();
            prop_assert_eq!(Envelope::of(message.as_bytes()).id, Some(json!(id)));
        }

        #[test]
        fn pieces_do_not_matter(cut in 0usize..40) {
            let message = br#"{"params":{"id":9},"id":"ab-1","method":1}"#;
            let mut scanner = EnvelopeScanner::default();
            scanner.feed(&message[..cut]);
            scanner.feed(&message[cut..]);
            prop_assert_eq!(scanner.finish(), Envelope::of(message));
        }
    }
}
