//! Addresses of files and displays: `resource://mcp-code-bridge/session/<session>/files/<path>`.

use std::fmt::Write as _;

const SESSIONS: &str = "resource://mcp-code-bridge/session/";

/// The template of [`file_uri`], for clients.
pub const FILE_TEMPLATE: &str = "resource://mcp-code-bridge/session/{session}/files/{+path}";

/// The address of a file in `/workspace/out`.
pub fn file_uri(session: &str, path: &str) -> String {
    let mut uri = format!("{SESSIONS}{session}/files/");
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// The session and the path in an address of [`file_uri`].
pub fn parse_file_uri(uri: &str) -> Option<(&str, String)> {
    let (session, path) = uri.strip_prefix(SESSIONS)?.split_once("/files/")?;
    if session.contains('/') {
        return None;
    }
    Some((session, percent_decoded(path)?))
}

/// The address of what a cell showed, which is in the answer itself and nowhere else.
pub fn display_uri(session: &str, cell: u64, number: usize) -> String {
    format!("{SESSIONS}{session}/displays/{cell}-{number}")
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let value = digit(digits[0])? * 16 + digit(digits[1])?;
            bytes.push(u8::try_from(value).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn special_characters_in_names_are_escaped() {
        assert_eq!(
            file_uri("main", "a b/é%.png"),
            "resource://mcp-code-bridge/session/main/files/a%20b/%C3%A9%25.png"
        );
    }

    #[test]
    fn other_addresses_are_not_read() {
        for uri in [
            "resource://mcp-code-bridge/session/main/files",
            "resource://mcp-code-bridge/session/main/displays/1",
            "resource://mcp-code-bridge/session/a/b/files/c",
            "resource://mcp-code-bridge/session/main/files/%",
            "resource://mcp-code-bridge/session/main/files/%4",
            "resource://mcp-code-bridge/session/main/files/%zz",
            "resource://mcp-code-bridge/session/main/files/%ff",
            "file:///etc/passwd",
            "",
        ] {
            assert_eq!(parse_file_uri(uri), None, "{uri}");
        }
        // Where the path leads is checked elsewhere.
        let uri = "resource://mcp-code-bridge/session/main/files/%2e%2e/x";
        assert_eq!(parse_file_uri(uri), Some(("main", "../x".to_owned())));
    }

    proptest! {
        #[test]
        fn any_path_comes_back(path in ".{1,40}") {
            let uri = file_uri("main", &path);
            prop_assert!(uri.is_ascii());
            prop_assert_eq!(parse_file_uri(&uri), Some(("main", path)));
        }

        #[test]
        fn any_address_is_read_or_refused(uri in ".{0,60}") {
            let _ = parse_file_uri(&uri);
            let _ = parse_file_uri(&format!("{SESSIONS}{uri}"));
        }
    }
}
