//! What a server inherits from the bridge's environment: the few variables that programs need to
//! run at all.
//!
//! Everything else stays with the bridge; a server that needs more names it in its `env` block.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret as _, SecretString};

/// Variables inherited by name; docs/src/guide/servers.md lists the same.
pub const INHERITED: [&str; 32] = [
    // The user and the place
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TZ",
    "LANG",
    "LANGUAGE",
    "TMPDIR",
    "TMP",
    "TEMP",
    // The way to the network
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    // The container engine: many servers are `docker run` commands
    "DOCKER_HOST",
    "CONTAINER_HOST",
    // Windows and its compatibility layers
    "SYSTEMROOT",
    "SystemRoot",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMFILES",
    "USERPROFILE",
    "PATHEXT",
];

/// Variables inherited by the beginning of their name.
pub const INHERITED_PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// The environment of a server: the inherited variables, then its own block.
pub(super) fn of_server(
    bridge: &BTreeMap<String, String>,
    block: &BTreeMap<String, SecretString>,
) -> BTreeMap<String, String> {
    let inherited = bridge.iter().filter(|(name, _)| is_inherited(name));
    let mut environment: BTreeMap<String, String> = inherited
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    environment.extend(
        block
            .iter()
            .map(|(name, value)| (name.clone(), value.expose_secret().to_owned())),
    );
    environment
}

fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name)
        || INHERITED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_added_to_the_allow_list_and_nothing_else_leaks() {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let bridge = BTreeMap::from([
            text("PATH", "/bin"),
            text("HOME", "/home/u"),
            text("LC_ALL", "C"),
            text("XDG_RUNTIME_DIR", "/run/user/1"),
            text("AWS_SECRET_ACCESS_KEY", "hush"),
            text("MCP_BRIDGE_MEMORY", "1g"),
        ]);
        let block = BTreeMap::from([
            ("A".to_owned(), SecretString::from("1")),
            ("HOME".to_owned(), SecretString::from("/elsewhere")),
        ]);
        let expected = BTreeMap::from([
            text("PATH", "/bin"),
            text("HOME", "/elsewhere"),
            text("LC_ALL", "C"),
            text("XDG_RUNTIME_DIR", "/run/user/1"),
            text("A", "1"),
        ]);
        assert_eq!(of_server(&bridge, &block), expected);
    }
}
