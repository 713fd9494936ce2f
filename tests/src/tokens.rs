//! Counts tokens as a model would be billed for them, with a real tokenizer whose ranks are in its
//! package.

/// How many `cl100k_base` tokens a text has.
#[must_use]
pub fn count(text: &str) -> usize {
    tiktoken_rs::cl100k_base_singleton()
        .encode_ordinary(text)
        .len()
}
