//! The TOON mode: the whole payload as one fenced block of Token-Oriented Object Notation.

use super::Payload;

/// New lines inside values are escaped by the notation, so no value can close the fence.
pub(super) fn write(payload: &Payload) -> String {
    let structured = payload.clone().into_structured();
    match toon_format::encode_default(&structured) {
        Ok(body) => format!("```toon\n{body}\n```"),
        // The payload is flat and its numbers are small; should the encoder refuse all the same, JSON says it too.
        Err(error) => {
            tracing::warn!(%error, "payload not encoded as toon");
            format!("```json\n{structured}\n```")
        }
    }
}
