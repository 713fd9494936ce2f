//! Memories, saved tools and project files outlive sessions, bridges and engines.

mod command_line;

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, Kind, each_engine, limit};
use serde_json::{Value, json};

const SIGKILL: i32 = 9;

/// A state folder that outlives bridges and belongs to the user that they run as.
struct State {
    folder: tempfile::TempDir,
}

impl State {
    fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("mcb-state.")
            .tempdir()
            .unwrap();
        let state = Self { folder };
        fs::set_permissions(
            state.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        state
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join("user_tools").join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Writes a file as a user would.
    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        fs::write(self.file(name), text).unwrap();
    }

    /// Gives everything in the folder to the user that a bridge for this engine runs as.
    fn own(&self, engine: &EngineUnderTest) {
        let Some(user) = engine.user else { return };
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            chown(&folder, Some(user.uid), Some(user.gid)).unwrap();
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    chown(entry.path(), Some(user.uid), Some(user.gid)).unwrap();
                }
            }
        }
    }

    fn builder<'a>(&self, engine: &'a EngineUnderTest) -> Builder<'a> {
        self.own(engine);
        Builder::new(Some(engine))
            .variable("MCP_BRIDGE_STATE_DIR", self.path().display().to_string())
    }

    fn bridge(&self, engine: &EngineUnderTest) -> Bridge {
        self.builder(engine).start()
    }
}

const SAVE: &str = "
import re
WORDS = ['b', 'a']
def tidy(text):
    return sorted(re.findall('[a-z]', text) + WORDS)
async def twice(text):
    return tidy(text) * 2
save_tool(tidy, twice)
save_memory('plan / 2026', {'steps': [1, 2.5, 10**40], 'done': None}, metadata={'by': 'test'})
import os
os.makedirs('/projects/data')
open('/projects/data/numbers.csv', 'w').write('1,2\\n')
open('/projects/raw.bin', 'wb').write(bytes(range(256)))
print('saved')
";

const USE: &str = "
print(await twice('c'))
plan = load_memory('plan / 2026')
print(plan == {'steps': [1, 2.5, 10**40], 'done': None}, get_memory_info('plan / 2026')['metadata'])
print(open('/projects/data/numbers.csv').read(), end='')
print(open('/projects/raw.bin', 'rb').read() == bytes(range(256)))
";

const USED: &str = "['a', 'b', 'c', 'a', 'b', 'c']\nTrue {'by': 'test'}\n1,2\nTrue\n";

/// Each engine's bridge finds what the killed bridges of other engines have saved.
fn state_survives_sigkill_and_a_change_of_engine(engine: &EngineUnderTest) {
    for kind in [Kind::Docker, Kind::PodmanRootful, Kind::PodmanRootless] {
        let Some(other) = EngineUnderTest::shared(kind) else {
            continue;
        };
        other.ensure_image();
        let state = State::new();
        let mut first = state.bridge(&other);
        assert_eq!(first.run(SAVE).succeeded(), "saved\n");
        first.signal(SIGKILL);
        first.wait(limit(5));
        drop(first);
        let mut second = state.bridge(engine);
        assert_eq!(second.run(USE).succeeded(), USED, "after {}", kind.name());
    }
}

fn files_of_the_predecessor_are_read_and_stay_readable_for_it(engine: &EngineUnderTest) {
    let state = State::new();
    state.write(
        "user_tools.py",
        "import json\n\ndef old(x):\n    return json.dumps(x)\n\nLIMIT = 5\n_private = 1\n",
    );
    state.write("memory/a_b.json", r#"{"key": "a b", "value": [1], "metadata": {"k": 1}, "created_at": 1.5, "updated_at": 2.5}"#);
    let mut bridge = state.bridge(engine);
    let code = "print(old([LIMIT]), load_memory('a b'), '_private' in globals())\nprint(sorted(__import__('os').listdir('/projects')), sorted(__import__('os').listdir('/projects/memory')))";
    assert_eq!(
        bridge.run(code).succeeded(),
        "[5] [1] False\n['memory', 'user_tools.py'] ['a_b.json']\n"
    );
    bridge
        .run("def new(): return old(1)\nsave_tool(new)\nsave_memory('a b', [2])")
        .succeeded();
    let text = state.read("user_tools.py");
    assert!(
        text.starts_with(
            "import json\n\ndef old(x):\n    return json.dumps(x)\n\nLIMIT = 5\n_private = 1\n"
        ) && text.contains("def new(): return old(1)"),
        "{text}"
    );
    let record: Value = serde_json::from_str(&state.read("memory/a_b.json")).unwrap();
    assert_eq!(
        (&record["value"], &record["metadata"], &record["created_at"]),
        (&json!([2]), &json!({"k": 1}), &json!(1.5))
    );
    let code = "print(new(), open('/projects/memory/a_b.json').read().count('2'))";
    let answer = bridge.call(&json!({"code": code, "session": "other"}));
    assert!(answer.succeeded().starts_with("1 "), "{}", answer.text());
}

fn broken_saved_tool_is_named_and_others_work(engine: &EngineUnderTest) {
    let state = State::new();
    let tool = |name: &str, body: &str| {
        format!(
            "# >>> tool {name} (saved 2026-11-29T21:57:00Z by session s)\n{body}\n# <<< tool {name}\n"
        )
    };
    let text = [
        tool("good", "def good(): return 1"),
        tool("broken", "def broken(:\n    pass"),
        tool("missing", "import nonsense\ndef missing(): pass"),
        tool("endless", "while True: pass\ndef endless(): pass"),
        "# >>> tool torn (saved x by session s)\ndef torn(): return 2\n".to_owned(),
    ];
    state.write("user_tools.py", &text.concat());
    let mut bridge = state.bridge(engine);
    let first = bridge.run("print(good())");
    assert_eq!(first.succeeded(), "1\n");
    assert!(
        first.text().contains("the tool torn has no end"),
        "{}",
        first.text()
    );
    bridge
        .run("broken()")
        .failed("error", "saved tool 'broken' cannot be loaded: SyntaxError");
    bridge.run("missing()").failed("error", "saved tool 'missing' cannot be loaded: ModuleNotFoundError: No module named 'nonsense' (line 1)");
    let slow = bridge.call(&json!({"code": "endless()", "timeout": limit(1).as_secs()}));
    slow.failed("timeout", "variables are kept");
    assert_eq!(bridge.run("print(good(), torn())").succeeded(), "1 2\n");
}

fn project_files_are_synced_after_each_run_and_unusual_ones_named(engine: &EngineUnderTest) {
    let state = State::new();
    let mut bridge = state.bridge(engine);
    bridge
        .run("open('/projects/a.txt', 'w').write('1')\nopen('/projects/b.txt', 'w').write('1')")
        .succeeded();
    assert_eq!(
        (state.read("a.txt"), state.read("b.txt")),
        ("1".to_owned(), "1".to_owned())
    );
    bridge
        .run("import os\nopen('/projects/a.txt', 'a').write('2')\nos.remove('/projects/b.txt')")
        .succeeded();
    assert_eq!(state.read("a.txt"), "12");
    assert!(!state.file("b.txt").exists());
    let answer = bridge.run("os.symlink('/etc/passwd', '/projects/link')\nopen('/projects/A.TXT', 'w').write('x')\nopen('/projects/c\\\\d', 'w').write('x')");
    answer.succeeded();
    for named in [
        "/projects/link is not kept",
        "/projects/A.TXT is not kept",
        "/projects/c\\\\d is not kept",
    ] {
        assert!(
            answer.field("note").as_str().unwrap().contains(named),
            "{named}: {}",
            answer.text()
        );
    }
    let names: Vec<String> = fs::read_dir(state.path().join("user_tools"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| ["a.txt", ".lock", ".versions"].contains(&name.as_str())),
        "{names:?}"
    );
    // The views of other projects are read-only.
    bridge.run("save_memory('k', 1)").succeeded();
    bridge
        .run("open('/projects/memory/k.json', 'w')")
        .failed("error", "PermissionError");
    bridge
        .run("open('/projects/memory/new.json', 'w')")
        .failed("error", "PermissionError");
    // The files of a stopped run are kept too.
    let stopped = bridge.call(&json!({"code": "open('/projects/late.txt', 'w').write('x')\nwhile True: pass", "timeout": limit(1).as_secs()}));
    stopped.failed("timeout", "variables are kept");
    assert_eq!(state.read("late.txt"), "x");
}

/// In first calls, whose guests get the files only when the code looks at them.
fn project_files_are_found_by_code_that_does_not_name_their_folder(engine: &EngineUnderTest) {
    let state = State::new();
    state.write("data/a.txt", "one");
    state.write("memory/k.json", r#"{"key": "k", "value": 1}"#);
    let mut bridge = state.bridge(engine);
    let walk = "import os\nprint(sorted(name for top, _, names in os.walk('/pro' + 'jects') for name in names))";
    assert_eq!(bridge.run(walk).succeeded(), "['a.txt', 'k.json']\n");
    let open = "path = '/'.join(['', 'pro' + 'jects', 'data', 'a.txt'])\nopen(path, 'a').write('!')\nprint(open(path).read())";
    for session in ["spare", "another"] {
        let answer = bridge.call(&json!({"code": open, "session": session}));
        let expected = if session == "spare" { "one!" } else { "one!!" };
        assert_eq!(answer.succeeded().trim_end(), expected);
        assert_eq!(state.read("data/a.txt"), expected);
    }
}

fn exceeded_quota_is_a_typed_error_and_the_session_goes_on(engine: &EngineUnderTest) {
    let state = State::new();
    let mut bridge = state
        .builder(engine)
        .variable("MCP_BRIDGE_STORE_VALUE", "1k")
        .variable("MCP_BRIDGE_STORE_MEMORY_COUNT", "2")
        .variable("MCP_BRIDGE_STORE_FILES", "1k")
        .start();
    let large = bridge.run("try:\n    save_memory('k', 'x' * 2000)\nexcept PermissionError as error:\n    print(isinstance(error, runtime.MCPError), error)");
    assert!(
        large
            .succeeded()
            .starts_with("True memory \"k\" has 2002 bytes; at most 1024 are kept"),
        "{}",
        large.text()
    );
    bridge
        .run("save_memory('a', 1); save_memory('b', 1)\nsave_memory('c', 1)")
        .failed("error", "store_memory_count");
    let files = bridge.run(
        "open('/projects/large', 'w').write('x' * 2000)\nopen('/projects/small', 'w').write('x')",
    );
    assert!(
        files
            .field("note")
            .as_str()
            .unwrap()
            .contains("/projects/large is not kept"),
        "{}",
        files.text()
    );
    assert!(state.file("small").exists() && !state.file("large").exists());
}

/// Two bridges update one memory through real guests.
fn heavy_two_bridges_of_a_thousand_updates_make_two_thousand(engine: &EngineUnderTest) {
    let state = State::new();
    let mut bridges: Vec<Bridge> = (0..2)
        .map(|_| {
            let builder = state.builder(engine);
            builder.variable("MCP_BRIDGE_MAX_TIMEOUT", "600").start()
        })
        .collect();
    let code =
        "for _ in range(1000):\n    update_memory('n', lambda n: (n or 0) + 1)\nprint('done')";
    let ids: Vec<u64> = bridges
        .iter_mut()
        .map(|bridge| bridge.ask_run(&json!({"code": code, "timeout": 600})))
        .collect();
    for (bridge, id) in bridges.iter_mut().zip(ids) {
        assert_eq!(bridge.answer(id, limit(250)).succeeded(), "done\n");
    }
    assert_eq!(
        bridges[0].run("print(load_memory('n'))").succeeded(),
        "2000\n"
    );
}

each_engine!(
    state_survives_sigkill_and_a_change_of_engine,
    files_of_the_predecessor_are_read_and_stay_readable_for_it,
    broken_saved_tool_is_named_and_others_work,
    project_files_are_synced_after_each_run_and_unusual_ones_named,
    project_files_are_found_by_code_that_does_not_name_their_folder,
    exceeded_quota_is_a_typed_error_and_the_session_goes_on,
    heavy_two_bridges_of_a_thousand_updates_make_two_thousand,
);
