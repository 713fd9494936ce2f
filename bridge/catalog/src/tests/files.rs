//! Files: where they are, which of them wins, what is wrong with them, and how changes are noticed.

use super::*;

#[test]
fn every_place_is_considered_in_the_order_in_which_it_wins() {
    let mut world = World::new();
    world
        .environment
        .insert("MCP_SERVERS_CONFIG".to_owned(), "extra.json".to_owned());
    let list = |world: &World| {
        let search_paths = world.search_paths();
        let mut lines = String::new();
        for file in Catalog::load(search_paths.clone()).files() {
            let _ = writeln!(
                lines,
                "{:16} {}",
                file.client,
                search_paths.shown(&file.path)
            );
        }
        lines
    };
    insta::assert_snapshot!("places_linux", list(&world));
    world.platform = Platform::MacOs;
    insta::assert_snapshot!("places_macos", list(&world));
}

#[test]
fn the_first_definition_of_a_name_wins() {
    let world = World::new();
    for (at, path) in [
        "project/.cursor/mcp.json",
        "home/.cursor/mcp.json",
        "project/.mcp.json",
        "home/MCPs/b.json",
        "home/MCPs/a.json",
    ]
    .iter()
    .enumerate()
    {
        world.write(
            path,
            &format!("{{\"mcpServers\": {{\"x\": {{\"command\": \"number-{at}\"}}}}}}"),
        );
        assert_eq!(stdio(&world.load(), "x").0, format!("number-{at}"));
    }
    assert_eq!(world.load().get("x").unwrap().passed_over.len(), 4);
}

// CFG-06
#[test]
fn comments_and_trailing_commas_do_not_drop_a_file() {
    let world = World::new();
    world.write(
        "project/.mcp.json",
        "{ // c\n \"mcpServers\": {\"a\":{\"command\":\"x\"},} }",
    );
    world.write(
        "home/.cursor/mcp.json",
        "\u{feff}{\"mcpServers\": {\"b\": {\"command\": \"x\"}}}",
    );
    world.write(
        "home/.gemini/settings.json",
        "{\"mcpServers\": {\"c\": {\"command\": \"x\"}}\n oops",
    );
    let catalog = world.load();
    assert_eq!(names(&catalog), ["a", "b"]);
    let problem = &catalog.problems()[0];
    assert!(
        problem
            .to_string()
            .contains(".gemini/settings.json:1:39: expected comma"),
        "{problem}"
    );
    assert_eq!(problem.server, None);
}

// CFG-10
#[test]
fn every_considered_file_is_reported() {
    let world = World::new();
    let server = |name: &str| format!("{{\"mcpServers\": {{\"{name}\": {{\"command\": \"x\"}}}}}}");
    world.write("project/.mcp.json", &server("root"));
    world.write("home/.claude/.mcp.json", &server("nowhere"));
    world.write("home/.mcp.json", &server("parent"));
    world.write("home/.claude/plugins/p/.mcp.json", &server("plugin"));
    world.write("home/.claude/settings.json", &server("settings"));
    world.write(
        "home/.claude.json",
        r#"{"mcpServers": {"top": {"command": "x"}}, "projects": {"CWD": {"mcpServers": {"here": {"command": "x"}}}, "/y": {"mcpServers": {"there": {"command": "x"}}}}}"#,
    );
    let catalog = world.load();
    assert_eq!(names(&catalog), ["here", "root", "settings", "top"]);
    let ignored: Vec<_> = catalog
        .files()
        .iter()
        .filter_map(|file| match file.state {
            FileState::Ignored(why) => Some((catalog.search_paths().shown(&file.path), why)),
            _ => None,
        })
        .collect();
    assert_eq!(
        ignored
            .iter()
            .map(|(path, _)| path.as_str())
            .collect::<Vec<_>>(),
        ["~/.claude/.mcp.json", "~/.mcp.json", "~/.claude/plugins"]
    );
    assert!(ignored[0].1.contains("not read by any client"));
    assert!(ignored[2].1.contains("out of scope"), "CFG-12");
}

#[test]
fn hostile_files_cost_only_themselves() {
    let world = World::new();
    world.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"good": {"command": "x"}}}"#,
    );
    let state = world.root().join("home/MCPs");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(state.join("fifo.json"))
            .status()
            .unwrap()
            .success()
    );
    std::os::unix::fs::symlink(state.join("loop.json"), state.join("loop.json")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", state.join("zero.json")).unwrap();
    std::fs::create_dir(state.join("folder.json")).unwrap();
    world.write("home/MCPs/nul.json", "{\"mcpServers\": {}}\0");
    world.write("home/MCPs/deep.json", &"[".repeat(200_000));
    world.write("home/MCPs/list.json", "[]");
    world.write(
        "home/MCPs/roots.json",
        r#"{"mcpServers": 5, "servers": null}"#,
    );
    world.write(
        "home/MCPs/names.json",
        r#"{"mcpServers": {"": {"command": "x"}, "a\u0000": {"command": "x"}}}"#,
    );
    let mut many = String::from("{\"mcpServers\": {");
    for number in 0..1500 {
        let _ = write!(many, "\"s{number}\": {{\"command\": \"x\"}},");
    }
    world.write("home/MCPs/many.json", &(many + "}}"));
    std::fs::write(state.join("large.json"), vec![b' '; 5 << 20]).unwrap();
    let started = std::time::Instant::now();
    let catalog = world.load();
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(catalog.definition("good").is_ok());
    assert_eq!(catalog.definitions().count(), 1001);
    let text = world.described(&catalog);
    for reason in [
        "fifo.json: is a FIFO",
        "loop.json: cannot be read",
        "zero.json: is a device",
        "folder.json: is a folder",
        "nul.json: is not UTF-8 text",
        "deep.json:1:",
        "list.json:1:1: the file must be an object, not a list",
        "roots.json:1:16: the servers must be an object",
        "a server needs a name",
        "the name contains a NUL",
        "more than 1000 servers",
        "large.json: is larger than 4 MiB",
    ] {
        assert!(text.contains(reason), "{reason}");
    }
}

#[test]
fn an_edit_is_picked_up_and_an_older_snapshot_stays_as_it_was() {
    let world = World::new();
    // It reads nothing before it is asked.
    let watcher = Watcher::new(world.search_paths());
    let path = world.write(
        "home/MCPs/a.json",
        r#"{"mcpServers": {"a": {"command": "x", "envFile": "e.env"}}}"#,
    );
    let env_file = world.write("project/e.env", "A=1");
    let settle = |path: &Path| {
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        std::fs::File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    };
    settle(&path);
    settle(&env_file);
    let first = watcher.current();
    let folder = std::fs::File::open(world.root().join("home/MCPs")).unwrap();
    folder
        .set_modified(std::time::SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    let first_settled = watcher.current();
    assert!(
        Arc::ptr_eq(&first_settled, &watcher.current()),
        "nothing changed, nothing is read"
    );

    world.write(
        "home/MCPs/b.json",
        r#"{"mcpServers": {"b": {"command": "x"}}}"#,
    );
    let second = watcher.current();
    assert_eq!((names(&first), names(&second)), (vec!["a"], vec!["a", "b"]));

    world.write("project/e.env", "A=2");
    assert_eq!(stdio(&watcher.current(), "a").2["A"], "2");

    world.write(
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"c": {"command": "x"}}}"#,
    );
    assert_eq!(names(&watcher.current()), ["a", "b", "c"]);

    std::fs::remove_file(&path).unwrap();
    assert_eq!(names(&watcher.current()), ["b", "c"]);
    assert_eq!(stdio(&first, "a").2["A"], "1");
}

#[test]
fn the_hash_changes_with_what_is_run_and_with_nothing_else() {
    let world = World::new();
    let hash = |entry: &str| {
        world
            .of(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#))
            .definition("a")
            .unwrap()
            .hash
            .clone()
    };
    let base = hash(r#"{"command": "x", "args": ["a", "b"]}"#);
    assert_eq!(
        base,
        hash(r#"{"args": ["a", "b"], "command": "x", "description": "d", "timeout": 3}"#)
    );
    for other in [
        r#"{"command": "y", "args": ["a", "b"]}"#,
        r#"{"command": "x", "args": ["ab"]}"#,
        r#"{"command": "x", "args": ["a", "b"], "env": {"A": "1"}}"#,
        r#"{"command": "x", "args": ["a", "b"], "cwd": "/"}"#,
        r#"{"url": "http://x/", "headers": {"a": "b"}}"#,
    ] {
        assert_ne!(base, hash(other), "{other}");
    }
}

#[test]
fn one_file_in_two_places_is_read_once() {
    let world = World::new();
    world.write(
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
    );
    let here = world.root().join("project/.cursor");
    std::os::unix::fs::symlink(world.root().join("home/.cursor"), here).unwrap();
    let catalog = world.load();
    assert!(catalog.get("a").unwrap().passed_over.is_empty());
    assert!(catalog.files().iter().any(|file| matches!(
        file.state,
        FileState::Ignored("is the same file as one above")
    )));
}

#[test]
fn home_as_the_working_directory_is_considered_once() {
    let world = World::new();
    world.write(
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
    );
    world.write(
        "home/.mcp.json",
        r#"{"mcpServers": {"b": {"command": "x"}}}"#,
    );
    let home = world.root().join("home");
    let catalog = Catalog::load(SearchPaths {
        cwd: home,
        ..world.search_paths()
    });
    assert_eq!(names(&catalog), ["a", "b"]);
    let paths: std::collections::BTreeSet<_> =
        catalog.files().iter().map(|file| &file.path).collect();
    assert_eq!(paths.len(), catalog.files().len());
}

#[test]
fn a_file_that_the_user_named_must_exist() {
    let mut world = World::new();
    world
        .environment
        .insert("MCP_SERVERS_CONFIG".to_owned(), "~/nowhere.json".to_owned());
    let catalog = world.load();
    assert!(
        catalog.problems()[0]
            .to_string()
            .ends_with("/home/nowhere.json: cannot be read: it does not exist")
    );
    world.write("home/more.toml", "[mcp_servers.t]\ncommand = 'x'\n");
    world
        .environment
        .insert("MCP_SERVERS_CONFIG".to_owned(), "~/more.toml".to_owned());
    assert_eq!(names(&world.load()), ["t"]);
}

#[test]
fn three_hundred_servers_load_quickly() {
    let world = World::new();
    let mut text = String::from("{\"mcpServers\": {");
    for number in 0..300 {
        let _ = write!(
            text,
            "\"s{number}\": {{\"command\": \"npx\", \"args\": [\"-y\", \"pkg-{number}\"]}},"
        );
    }
    world.program("bin/npx", "#!/usr/bin/env node\n");
    world.write("home/.claude.json", &(text + "}}"));
    let load = || {
        let started = std::time::Instant::now();
        assert_eq!(world.load().definitions().count(), 300);
        started.elapsed()
    };
    // The best of three, with room for unoptimised code on a busy machine.
    let best = (0..3).map(|_| load()).min().unwrap_or_default();
    assert!(best < Duration::from_secs(1), "{best:?}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn no_entry_makes_loading_panic(
        key in "(command|args|env|url|type|headers|timeout|cwd|envFile|disabled|transport|env_vars|includeTools|requestInit)",
        value in r#"("[$\{a-z:/ -]{0,12}\}?"|[0-9.-]{1,5}|null|true|\[("a"|1|\{\})?\]|\{("a": ("b"|1|null))?\})"#,
    ) {
        let world = World::new();
        let catalog = world.of(&format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"x\", \"{key}\": {value}}}, \"b\": {{\"{key}\": {value}}}}}}}"));
        let _ = world.described(&catalog);
    }
}
