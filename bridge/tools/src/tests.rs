//! Tools as they are remembered while no server runs.

use std::path::{Path, PathBuf};

use bridge_catalog::{Catalog, SearchPaths};

use super::*;

/// A folder with definitions and a cache.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    /// The catalog of one file in the state folder.
    fn of(&self, text: &str) -> Catalog {
        let root = self.root();
        let state = root.join("MCPs");
        std::fs::create_dir_all(&state).unwrap();
        std::fs::write(state.join("servers.json"), text).unwrap();
        Catalog::load(SearchPaths::new(
            root.join("home"),
            root.join("project"),
            state,
            [].into(),
        ))
    }
}

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        title: None,
        description: Some(format!("{name} does something")),
        input_schema: serde_json::json!({"type": "object"}),
        output_schema: None,
    }
}

#[test]
fn tools_are_found_before_their_server_runs() {
    let world = World::new();
    let catalog = world.of(r#"{"mcpServers": {
            "a-b": {"command": "x", "excludeTools": ["hidden_issue"]},
            "issue-tracker": {"command": "y"}, "zoo": {"command": "z"}, "alpha": {"command": "z"}
        }}"#);
    let definition = catalog.definition("a-b").unwrap();
    let cache = ToolCache::below(&world.root().join("cache"));
    let tools = || {
        vec![
            tool("create.issue"),
            tool("create_issue"),
            tool("hidden_issue"),
        ]
    };
    ToolBook::new(Some(cache.clone())).learn(definition, tools());

    // Another process, another day.
    let book = ToolBook::new(Some(cache.clone()));
    let findings = book.search(&catalog, "issue", 5);
    let hits: Vec<_> = findings
        .hits
        .iter()
        .map(|hit| (hit.server_alias.as_str(), hit.alias()))
        .collect();
    assert_eq!(hits, [("a_b", "create_issue_2"), ("a_b", "create_issue")]);
    let not_started: Vec<_> = findings
        .not_started
        .iter()
        .map(|name| name.0.as_str())
        .collect();
    assert_eq!(
        not_started,
        ["issue-tracker", "alpha", "zoo"],
        "the server that matches comes first"
    );
    let list = book.tools(definition).unwrap();
    assert_eq!(list.get("create.issue").unwrap().1, "create_issue_2");
    assert_eq!(list.get("create_issue_2").unwrap().0.name, "create.issue");
    assert_eq!(list.closest("creat_issue"), Some("create_issue"));

    // A list that is learned again is searched at once.
    book.learn(definition, vec![tool("merge_branch")]);
    assert_eq!(book.search(&catalog, "issue", 5).hits.len(), 0);
    assert_eq!(book.search(&catalog, "branch", 5).hits.len(), 1);

    // A changed definition does not show the old list.
    let changed = world.of(r#"{"mcpServers": {"a-b": {"command": "other"}}}"#);
    assert!(
        ToolBook::new(Some(cache))
            .tools(changed.definition("a-b").unwrap())
            .is_none()
    );
}

#[test]
fn unreadable_cache_counts_as_empty() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let catalog = world.of(r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    let definition = catalog.definition("a").unwrap();
    let cache = ToolCache::below(&world.root().join("cache"));
    let path = world
        .root()
        .join(format!("cache/tools/{}.json", definition.hash));
    ToolBook::new(Some(cache.clone())).learn(definition, vec![tool("t")]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&path), mode(path.parent().unwrap())),
        (0o600, 0o700),
        "lists may tell of private systems"
    );
    for spoilt in [
        "",
        "{",
        "{}",
        r#"{"version": 9, "server": "a", "tools": []}"#,
        r#"{"version": 1, "tools": [{"nam": 1}]}"#,
    ] {
        std::fs::write(&path, spoilt).unwrap();
        assert!(
            ToolBook::new(Some(cache.clone()))
                .tools(definition)
                .is_none(),
            "{spoilt}"
        );
    }
    std::fs::remove_dir_all(world.root().join("cache")).unwrap();
    std::fs::write(world.root().join("cache"), "in the way").unwrap();
    assert_eq!(
        ToolBook::new(Some(cache))
            .learn(definition, vec![tool("t")])
            .tools
            .len(),
        1,
        "works without"
    );
}

#[test]
fn cache_is_bounded() {
    let world = World::new();
    let cache = ToolCache::below(&world.root().join("cache"));
    for number in 0..514 {
        let catalog = world.of(&format!(
            r#"{{"mcpServers": {{"a": {{"command": "x{number}"}}}}}}"#
        ));
        ToolBook::new(Some(cache.clone())).learn(catalog.definition("a").unwrap(), Vec::new());
    }
    assert_eq!(
        std::fs::read_dir(world.root().join("cache/tools"))
            .unwrap()
            .count(),
        512
    );
}
