//! Every client's file: entered, entered again, changed, taken out; and what is left unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::Catalog;
use crate::search_paths::Platform;

const BRIDGE: Entry<'static> = Entry {
    command: "/opt/bin/mcp-code-bridge",
    args: &[],
};

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn search_paths(&self) -> SearchPaths {
        let home = self.0.path().join("home");
        let cwd = self.0.path().join("project");
        fs::create_dir_all(&home).expect("a folder");
        fs::create_dir_all(&cwd).expect("a folder");
        SearchPaths {
            platform: Platform::Linux,
            allow_self: true,
            ..SearchPaths::new(home, cwd, self.0.path().join("state"), BTreeMap::new())
        }
    }

    fn file(&self, client: &str, scope: Scope) -> ClientFile {
        let files = self.search_paths().client_files();
        let mut found = files.into_iter().filter(|file| file.scope == scope);
        found
            .find(|file| file.client.name == client)
            .expect("a client")
    }

    /// The user's file of a client with this text.
    fn with(&self, client: &str, text: &str) -> ClientFile {
        let file = self.file(client, Scope::User);
        fs::create_dir_all(file.path.parent().expect("a folder")).expect("made");
        fs::write(&file.path, text).expect("written");
        file
    }
}

fn add(file: &ClientFile) -> String {
    let edit = file.add("code", BRIDGE, false).expect("edited");
    edit.write().expect("written");
    fs::read_to_string(&file.path).expect("there")
}

#[test]
fn every_client_gets_an_entry_that_the_bridge_itself_reads() {
    let machine = Machine::new();
    let files = machine.search_paths().client_files();
    let names: std::collections::BTreeSet<_> = files.iter().map(|file| file.client.name).collect();
    assert_eq!(names.len(), CLIENTS.len());
    for file in files {
        let text = add(&file);
        assert!(
            !file.add("code", BRIDGE, false).expect("edited").is_change(),
            "{text}"
        );
        let catalog = Catalog::load(machine.search_paths());
        let entry = catalog.get("code").expect("defined");
        let sources = std::iter::once(&entry.source).chain(&entry.passed_over);
        assert!(
            sources.clone().any(|source| source.path == file.path),
            "{text}"
        );
        file.remove("code")
            .expect("edited")
            .write()
            .expect("written");
        assert_eq!(file.servers().expect("readable"), []);
        assert!(!file.remove("code").expect("edited").is_change());
    }
}

#[test]
fn new_files_look_like_those_of_their_clients() {
    let machine = Machine::new();
    let mut all = String::new();
    for file in machine.search_paths().client_files() {
        if file.scope == Scope::User {
            all.extend(["--- ", file.client.name, "\n", &add(&file)]);
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn comments_order_and_spacing_stay() {
    let machine = Machine::new();
    for (client, before, after) in [
        (
            "zed",
            "{\n    // mine\n    \"theme\": \"dark\", /* and\n    this */\n    \"context_servers\": {\n        \"a\": {\"command\": \"x\"} // last\n    },\n}\n",
            "{\n    // mine\n    \"theme\": \"dark\", /* and\n    this */\n    \"context_servers\": {\n        \"a\": {\"command\": \"x\"}, // last\n        \"code\": {\n            \"source\": \"custom\",\n            \"command\": \"/opt/bin/mcp-code-bridge\",\n            \"args\": []\n        }\n    },\n}\n",
        ),
        (
            "cursor",
            "{\r\n  \"mcpServers\": {}\r\n}\r\n",
            "{\r\n  \"mcpServers\": {\r\n    \"code\": {\r\n      \"command\": \"/opt/bin/mcp-code-bridge\",\r\n      \"args\": []\r\n    }\r\n  }\r\n}\r\n",
        ),
        (
            "codex",
            "a = 1\r\n",
            "a = 1\r\n\r\n[mcp_servers.code]\r\ncommand = \"/opt/bin/mcp-code-bridge\"\r\nargs = []\r\n",
        ),
        (
            "codex",
            "# mine\nmodel = \"x\" # this one\n\n[mcp_servers.other]\ncommand = 'y'\n",
            "# mine\nmodel = \"x\" # this one\n\n[mcp_servers.other]\ncommand = 'y'\n\n[mcp_servers.code]\ncommand = \"/opt/bin/mcp-code-bridge\"\nargs = []\n",
        ),
    ] {
        let file = machine.with(client, before);
        assert_eq!(add(&file), after, "{client}");
        file.remove("code")
            .expect("edited")
            .write()
            .expect("written");
        let removed = fs::read_to_string(&file.path).expect("there");
        let solid = |text: &str| text.replace(char::is_whitespace, "");
        assert_eq!(solid(&removed), solid(before), "{client}");
    }
}

#[test]
fn comments_of_toml_files_stay_where_they_are() {
    let machine = Machine::new();
    let entry = "[mcp_servers.code]\ncommand = \"/opt/bin/mcp-code-bridge\"\nargs = []\n";
    for before in [
        "# my file\n",
        "[z]\na = 1\n# b = 2\n",
        "[mcp_servers.o]\ncommand = \"o\"\n# [mcp_servers.o.env]\n# K = \"v\"\n\n# --- z\n[z]\na = 1\n",
    ] {
        let file = machine.with("codex", before);
        assert_eq!(add(&file), format!("{before}\n{entry}"));
        file.remove("code")
            .expect("edited")
            .write()
            .expect("written");
        let removed = fs::read_to_string(&file.path).expect("there");
        assert_eq!(removed.trim_end(), before.trim_end());
    }
    let before = format!(
        "model = \"x\"\n# approval = \"never\"\n\n# ours\n{entry}# tail\n\n# next\n[z]\na = 1\n"
    );
    let file = machine.with("codex", &before);
    let edit = file.remove("code").expect("edited");
    edit.write().expect("written");
    let removed = fs::read_to_string(&file.path).expect("there");
    assert_eq!(removed, before.replace(entry, ""));
}

#[test]
fn own_entry_gets_another_program_and_keeps_the_rest() {
    let machine = Machine::new();
    for (client, before, after) in [
        (
            "cursor",
            r#"{"mcpServers": {"code": {"command": "/old/mcp-code-bridge", "args": ["--set", "memory=1g"], "env": {"A": "b"}}}}"#,
            r#"{"mcpServers": {"code": {"command": "/opt/bin/mcp-code-bridge", "args": ["--set", "memory=1g"], "env": {"A": "b"}}}}"#,
        ),
        (
            "opencode",
            r#"{"mcp": {"code": {"type": "local", "command": ["/old/mcp-code-bridge", "serve"], "enabled": false}}}"#,
            r#"{"mcp": {"code": {"type": "local", "command": ["/opt/bin/mcp-code-bridge", "serve"], "enabled": false}}}"#,
        ),
        (
            "codex",
            "[mcp_servers.code]\ncommand = \"/old/mcp-code-bridge\" # mine\nstartup_timeout_sec = 9\n",
            "[mcp_servers.code]\ncommand = \"/opt/bin/mcp-code-bridge\" # mine\nstartup_timeout_sec = 9\n",
        ),
        (
            "codex",
            "mcp_servers = { code = { command = \"/old/mcp-code-bridge\" }, b = {} }\n",
            "mcp_servers = { code = { command = \"/opt/bin/mcp-code-bridge\" }, b = {} }\n",
        ),
    ] {
        assert_eq!(add(&machine.with(client, before)), after);
    }
}

#[test]
fn another_server_of_that_name_is_replaced_only_on_request() {
    let machine = Machine::new();
    for (client, text) in [
        (
            "cursor",
            r#"{"mcpServers": {"code": {"command": "other"}}}"#,
        ),
        (
            "cursor",
            r#"{"mcpServers": {"code": {"url": "https://example.org/"}}}"#,
        ),
        (
            "codex",
            "[mcp_servers.code]\ncommand = \"other\"\n\n[next]\na = 1\n",
        ),
    ] {
        let file = machine.with(client, text);
        let refused = file.add("code", BRIDGE, false);
        assert!(matches!(refused, Err(EditError::NotOwn { .. })), "{text}");
        assert!(matches!(file.remove("code"), Err(EditError::NotOwn { .. })));
        assert_eq!(fs::read_to_string(&file.path).expect("there"), text);
        let edit = file.add("code", BRIDGE, true).expect("edited");
        edit.write().expect("written");
        assert!(file.servers().expect("readable")[0].is_own());
    }
}

#[test]
fn what_cannot_be_edited_safely_is_left_unchanged() {
    let machine = Machine::new();
    for (client, text) in [
        ("cursor", "{\"mcpServers\": "),
        ("cursor", "[]"),
        ("cursor", r#"{"mcpServers": []}"#),
        ("cursor", r#"{"mcpServers": {"a": 1}, "mcpServers": {}}"#),
        ("cursor", "{'mcpServers': {}}"),
        ("codex", "mcp_servers = 1\n"),
        ("codex", "a = \n"),
    ] {
        let file = machine.with(client, text);
        assert!(file.add("code", BRIDGE, false).is_err(), "{text}");
        assert_eq!(fs::read_to_string(&file.path).expect("there"), text);
    }
}

#[test]
fn links_and_modes_are_kept() {
    let machine = Machine::new();
    let file = machine.with("cursor", "{}");
    let real = machine.0.path().join("real.json");
    fs::rename(&file.path, &real).expect("moved");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("set");
    symlink(&real, &file.path).expect("a link");
    add(&file);
    assert!(file.path.is_symlink());
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode(&real), 0o640);
    assert!(fs::read_to_string(&real).expect("there").contains("code"));

    fs::set_permissions(&real, fs::Permissions::from_mode(0o444)).expect("set");
    let edit = file.remove("code").expect("edited");
    assert!(matches!(edit.write(), Err(EditError::ReadOnly)));

    fs::remove_file(&real).expect("removed");
    let refused = file.add("code", BRIDGE, false);
    assert!(matches!(refused, Err(EditError::DanglingLink)));

    let new = machine.file("windsurf", Scope::User);
    add(&new);
    assert_eq!(mode(&new.path), 0o600);
}

#[test]
fn file_that_changed_meanwhile_is_not_overwritten() {
    let machine = Machine::new();
    let file = machine.with("cursor", "{}");
    let edit = file.add("code", BRIDGE, false).expect("edited");
    fs::write(&file.path, "{\"a\": 1}").expect("written");
    assert!(matches!(edit.write(), Err(EditError::Changed)));
    assert_eq!(fs::read_to_string(&file.path).expect("there"), "{\"a\": 1}");
}

#[test]
fn byte_order_mark_stays() {
    let machine = Machine::new();
    let text = add(&machine.with("cursor", "\u{feff}{}\n"));
    assert!(text.starts_with("\u{feff}{"), "{text}");
}

/// Documents with members of every kind, comments and odd spacing, with or without servers.
fn documents() -> impl Strategy<Value = String> {
    let space = prop_oneof![
        Just(""),
        Just(" "),
        Just("\n  "),
        Just("\n\t// a, comment\n"),
        Just("/* { */"),
    ];
    let leaf = prop_oneof![
        Just("1e5".to_owned()),
        Just("null".to_owned()),
        Just("\"}, // {\"".to_owned()),
        Just("[1, {\"a\": []}]".to_owned()),
    ];
    let object = |value: BoxedStrategy<String>| {
        let member = ("[a-c]{1,3}", space.clone(), value, space.clone());
        (prop::collection::vec(member, 0..4), space.clone()).prop_map(|(members, end)| {
            let mut keys = std::collections::BTreeSet::new();
            let members: Vec<String> = members
                .into_iter()
                .filter(|(key, ..)| keys.insert(key.clone()))
                .map(|(key, before, value, after)| {
                    format!("{before}\"{key}\"{after}: {value}{after}")
                })
                .collect();
            format!("{{{}{end}}}", members.join(","))
        })
    };
    let inner = object(leaf.clone().boxed()).boxed();
    let servers = object(inner.clone()).boxed();
    let rest = object(prop_oneof![leaf, inner].boxed());
    (rest, prop::option::of(servers)).prop_map(|(rest, servers)| match servers {
        Some(servers) => {
            let comma = if rest.contains(':') { "," } else { "" };
            rest.replacen('{', &format!("{{\"mcpServers\": {servers}{comma}"), 1)
        }
        None => rest,
    })
}

/// The text without what may be added around an entry.
fn solid(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|letter| !letter.is_whitespace())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn only_characters_of_the_entry_are_added(document in documents()) {
        let machine = Machine::new();
        let file = machine.with("cursor", &document);
        let edit = file.add("code", BRIDGE, false).expect("edited");
        let mut after = solid(&edit.after);
        for letter in solid(&document) {
            prop_assert!(after.any(|other| other == letter), "{} became {}", document, edit.after);
        }
        edit.write().expect("written");
        let removed = file.remove("code").expect("edited");
        removed.write().expect("written");
        prop_assert!(!file.add("code", BRIDGE, false).expect("edited").after.is_empty());
    }
}
