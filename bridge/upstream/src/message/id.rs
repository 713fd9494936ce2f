//! The ids of our requests, as servers give them back.

use serde_json::value::RawValue;

/// Ids of ours are integers; some servers give them back as text or as a float.
pub(super) fn our_id(id: &RawValue) -> Option<u64> {
    let text = id.get();
    let text = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(text);
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// The id of an answer too large or too broken to be parsed, from its first and last bytes: SDKs write the id either
/// before or after the result.
pub(in super::super) fn sniff_id(head: &[u8], tail: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(tail);
    // Before the first value that could itself hold an `"id"`.
    let outer = head
        .find("\"result\"")
        .or_else(|| head.find("\"error\""))
        .map_or("", |end| &head[..end]);
    let after = outer.rfind("\"id\"").map(|at| &outer[at + 4..]);
    let before = tail
        .rfind("\"id\"")
        .map(|at| &tail[at + 4..])
        .filter(|rest| rest.trim_end().ends_with('}'));
    let (text, must_end) = match (after, before) {
        (Some(text), _) => (text, false),
        (None, Some(text)) => (text, true),
        (None, None) => return None,
    };
    let text = text
        .trim_start()
        .strip_prefix(':')?
        .trim_start()
        .trim_start_matches('"');
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let rest = text[digits..].trim_start_matches('"').trim();
    // Behind the result the id is the last thing but the brace or the version.
    let last = rest == "}"
        || (rest.starts_with(',') && rest.contains("\"jsonrpc\"") && !rest[1..].contains('{'));
    if must_end && !last {
        return None;
    }
    text[..digits].parse().ok()
}
