//! The one table of field names, in every spelling that a client uses.

use bridge_common::similar;

/// The meaning of a field of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Command,
    Arguments,
    Environment,
    /// Names of variables to pass through.
    Forwarded,
    EnvFile,
    Directory,
    Address,
    Kind,
    /// A text like `Kind`, or an object with the fields of a transport.
    Transport,
    Headers,
    /// Header names with the variables that hold their values.
    HeaderVariables,
    /// The variable that holds a bearer token.
    BearerVariable,
    Bearer,
    /// An object as `fetch` takes it.
    RequestInit,
    Enabled,
    Disabled,
    Description,
    Timeout,
    StartSeconds,
    StartMilliseconds,
    CallSeconds,
    CallMilliseconds,
    OnlyTools,
    ExceptTools,
    /// Concerns only the client.
    Ignored,
    /// Would matter, but the bridge does not support it.
    Unsupported,
}

/// One spelling of each name; capitals, `_` and `-` make no difference.
const TABLE: &[(&str, Field)] = &[
    ("command", Field::Command),
    ("cmd", Field::Command),
    ("args", Field::Arguments),
    ("arguments", Field::Arguments),
    ("env", Field::Environment),
    ("envs", Field::Environment),
    ("environment", Field::Environment),
    ("env_vars", Field::Forwarded),
    ("envFile", Field::EnvFile),
    ("cwd", Field::Directory),
    ("workingDirectory", Field::Directory),
    ("url", Field::Address),
    ("uri", Field::Address),
    ("baseUrl", Field::Address),
    ("endpoint", Field::Address),
    ("httpUrl", Field::Address),
    ("serverUrl", Field::Address),
    ("type", Field::Kind),
    ("transportType", Field::Kind),
    ("transport", Field::Transport),
    ("headers", Field::Headers),
    ("http_headers", Field::Headers),
    ("env_http_headers", Field::HeaderVariables),
    ("bearer_token_env_var", Field::BearerVariable),
    ("bearer_token", Field::Bearer),
    ("requestInit", Field::RequestInit),
    ("enabled", Field::Enabled),
    ("active", Field::Enabled),
    ("isActive", Field::Enabled),
    ("disabled", Field::Disabled),
    ("description", Field::Description),
    ("timeout", Field::Timeout),
    ("startup_timeout_sec", Field::StartSeconds),
    ("startup_timeout_ms", Field::StartMilliseconds),
    ("startupTimeout", Field::StartMilliseconds),
    ("initTimeout", Field::StartMilliseconds),
    ("connectTimeout", Field::StartMilliseconds),
    ("tool_timeout_sec", Field::CallSeconds),
    ("tool_timeout_ms", Field::CallMilliseconds),
    ("toolTimeout", Field::CallMilliseconds),
    ("requestTimeout", Field::CallMilliseconds),
    ("callTimeout", Field::CallMilliseconds),
    ("includeTools", Field::OnlyTools),
    ("enabled_tools", Field::OnlyTools),
    ("excludeTools", Field::ExceptTools),
    ("disabled_tools", Field::ExceptTools),
    ("headersHelper", Field::Unsupported),
    ("tcp", Field::Unsupported),
    ("experimental_environment", Field::Unsupported),
    ("alwaysAllow", Field::Ignored),
    ("alwaysLoad", Field::Ignored),
    ("auth", Field::Ignored),
    ("authProviderType", Field::Ignored),
    ("autoApprove", Field::Ignored),
    ("default_tools_approval_mode", Field::Ignored),
    ("dev", Field::Ignored),
    ("displayName", Field::Ignored),
    ("gallery", Field::Ignored),
    ("icon", Field::Ignored),
    ("id", Field::Ignored),
    ("metadata", Field::Ignored),
    ("name", Field::Ignored),
    ("oauth", Field::Ignored),
    ("oauth_resource", Field::Ignored),
    ("required", Field::Ignored),
    ("sandbox", Field::Ignored),
    ("sandboxEnabled", Field::Ignored),
    ("scopes", Field::Ignored),
    ("settings", Field::Ignored),
    ("source", Field::Ignored),
    ("supports_parallel_tool_calls", Field::Ignored),
    ("title", Field::Ignored),
    ("tools", Field::Ignored),
    ("trust", Field::Ignored),
    ("version", Field::Ignored),
    ("$schema", Field::Ignored),
];

/// What a key means, in whatever case it is written.
pub(super) fn meaning(key: &str) -> Option<Field> {
    TABLE
        .iter()
        .find(|(spelling, _)| letters(spelling).eq(letters(key)))
        .map(|(_, field)| *field)
}

/// The part of a key that is compared.
fn letters(key: &str) -> impl Iterator<Item = char> {
    key.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .map(|c| c.to_ascii_lowercase())
}

/// The key that was most likely meant.
pub(super) fn closest(key: &str) -> Option<&'static str> {
    similar::closest(
        key,
        TABLE
            .iter()
            .filter(|(_, field)| *field != Field::Ignored)
            .map(|(spelling, _)| *spelling),
    )
}

/// How a server is reached, by every name that clients have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Stdio,
    Http,
    LegacySse,
    WebSocket,
}

/// The meaning of `type`.
pub(super) fn kind(text: &str) -> Option<Kind> {
    let plain: String = text
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    Some(match plain.as_str() {
        "stdio" | "local" | "command" | "process" => Kind::Stdio,
        "streamable" | "remote" => Kind::Http,
        "ws" | "wss" | "websocket" => Kind::WebSocket,
        // Streamable HTTP has as many names as there are clients: `http-stream`, `streaming-http`, ...
        _ if plain.contains("http") => Kind::Http,
        _ if plain.starts_with("sse") => Kind::LegacySse,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_occurs_once() {
        let spellings: std::collections::BTreeSet<String> = TABLE
            .iter()
            .map(|(name, _)| letters(name).collect())
            .collect();
        assert_eq!(spellings.len(), TABLE.len());
    }

    #[test]
    fn keys_are_known_in_any_case() {
        for key in [
            "url",
            "URL",
            "Url",
            "server_url",
            "http-url",
            "serverURL",
            "uri",
        ] {
            assert_eq!(meaning(key), Some(Field::Address), "{key}");
        }
        for (key, field) in [
            ("Command", Field::Command),
            ("cmd", Field::Command),
            ("env_file", Field::EnvFile),
            ("working_directory", Field::Directory),
            ("isActive", Field::Enabled),
            ("startup-timeout-ms", Field::StartMilliseconds),
            ("disabledTools", Field::ExceptTools),
            ("bearerToken", Field::Bearer),
        ] {
            assert_eq!(meaning(key), Some(field), "{key}");
        }
        assert_eq!(meaning("urls"), None);
    }

    #[test]
    fn every_spelling_of_a_transport() {
        for text in [
            "http",
            "streamable-http",
            "streamableHttp",
            "streamable_http",
            "remote",
            "HTTP",
            "streaming-http",
            "http-first",
        ] {
            assert_eq!(kind(text), Some(Kind::Http), "{text}");
        }
        for text in ["stdio", "local", "STDIO"] {
            assert_eq!(kind(text), Some(Kind::Stdio), "{text}");
        }
        assert_eq!(kind("sse"), Some(Kind::LegacySse));
        assert_eq!(kind("sse-only"), Some(Kind::LegacySse));
        assert_eq!(kind("websocket"), Some(Kind::WebSocket));
        assert_eq!(kind("carrier-pigeon"), None);
    }
}
