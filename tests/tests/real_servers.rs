//! Servers that people use, in their released versions: one program that needs five of them.
//!
//! `tests/setup/servers.sh` installs them and `TEST_SERVERS` says where; without them this is a failure in CI, and a printed skip elsewhere.

use std::env;
use std::path::{Path, PathBuf};

use integration_tests::bridge::Builder;
use integration_tests::{EngineUnderTest, Home, Kind, engine};
use serde_json::{Value, json};

/// The folder they are installed in.
#[expect(
    clippy::print_stderr,
    reason = "a skipped test says so in the test's output"
)]
fn installed() -> Option<PathBuf> {
    let folder = env::var_os("TEST_SERVERS")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    assert!(
        folder.is_some()
            || env::var_os("CI").is_none()
            || env::var_os("TEST_ENGINES_PARTIAL").is_some(),
        "TEST_SERVERS is not set, and CI tests with real servers; `make test` installs them"
    );
    if folder.is_none() {
        eprintln!("SKIPPED: no real servers (TEST_SERVERS is not set)");
    }
    folder
}

/// Two commits, each by another author.
fn repository(home: &Home) -> PathBuf {
    let folder = home.join("home/repository");
    let git = |arguments: &[&str]| {
        let done = home
            .command("/usr/bin/git")
            .args(["-C", "home/repository"])
            .current_dir(home.path())
            .args(arguments)
            .output()
            .unwrap();
        assert!(done.status.success(), "git {arguments:?}: {done:?}");
    };
    std::fs::create_dir(&folder).unwrap();
    git(&["init", "--quiet"]);
    for (author, subject) in [("Ada", "Count the cakes"), ("Grace", "Price the tea")] {
        let author = format!("{author} <{author}@example.org>");
        git(&[
            "-c",
            "user.name=tests",
            "-c",
            "user.email=tests@example.org",
            "commit",
            "--quiet",
            "--allow-empty",
            "--author",
            &author,
            "--message",
            subject,
        ]);
    }
    folder
}

fn definitions(servers: &Path, home: &Home, repository: &Path) -> Value {
    let python = servers.join("python/bin");
    let node = servers.join("node/node_modules/.bin");
    json!({"mcpServers": {
        "time": {"command": python.join("mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "git": {"command": python.join("mcp-server-git"), "args": ["--repository", repository]},
        "sqlite": {"command": servers.join("sqlite/bin/mcp-server-sqlite"), "args": ["--db-path", home.join("home/notes.db")]},
        "filesystem": {"command": node.join("mcp-server-filesystem"), "args": [home.join("home/files")]},
        "memory": {"command": node.join("mcp-server-memory"), "env": {"MEMORY_FILE_PATH": home.join("home/memory.jsonl")}},
    }})
}

const PROGRAM: &str = r"
import asyncio, json, re

rates, log, noon = await asyncio.gather(
    mcp_filesystem.read_text_file(path=FILES + '/rates.json'),
    mcp_git.git_log(repo_path=REPOSITORY, max_count=10),
    mcp_time.convert_time(source_timezone='Asia/Tokyo', time='12:00', target_timezone='Asia/Kolkata'),
)
rates = json.loads(rates['content'] if isinstance(rates, dict) else rates)
authors = re.findall(r'Author: .*?(Ada|Grace)', str(log))
await mcp_sqlite.create_table(query='CREATE TABLE work (author TEXT, pay INTEGER)')
for author in authors:
    await mcp_sqlite.write_query(query=f'INSERT INTO work VALUES ({author!r}, {rates[author]})')
rows = await mcp_sqlite.read_query(query='SELECT author, pay FROM work ORDER BY pay')
await mcp_memory.create_entities(
    entities=[{'name': author, 'entityType': 'author', 'observations': [f'committed, costs {rates[author]}']} for author in authors]
)
graph = await mcp_memory.read_graph()
print(rows)
print(sorted((entity['name'], entity['observations']) for entity in graph['entities']))
print(noon['target']['datetime'][11:])
";

#[test]
fn one_program_uses_five_heavy() {
    engine::with_shared(Kind::Docker, module_path!(), on);
}

fn on(engine: &EngineUnderTest) {
    let Some(servers) = installed() else { return };
    let builder = Builder::new(Some(engine));
    let repository = repository(builder.home());
    let files = builder
        .home()
        .write("home/files/rates.json", r#"{"Ada": 40, "Grace": 30}"#);
    let text = definitions(&servers, builder.home(), &repository).to_string();
    let file = builder.home().write("mcp.json", text);
    let mut bridge = builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .start();
    let (files, repository) = (json!(files.parent().unwrap()), json!(repository));
    let code = format!("FILES = {files}\nREPOSITORY = {repository}\n{PROGRAM}");
    let answer = bridge.call(&json!({"code": code, "timeout": 60, "servers": ["time", "git", "sqlite", "filesystem", "memory"]}));
    assert_eq!(
        answer.succeeded(),
        "[{'author': 'Grace', 'pay': 30}, {'author': 'Ada', 'pay': 40}]\n\
         [('Ada', ['committed, costs 40']), ('Grace', ['committed, costs 30'])]\n\
         08:30:00+05:30\n"
    );
    bridge.finish();
}
