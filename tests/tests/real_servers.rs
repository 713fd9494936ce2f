//! Released versions of servers that people use, five of them in one program.
//!
//! `tests/setup/servers.sh` installs them and `TEST_SERVERS` names their folder; without them the
//! tests fail in CI and are skipped elsewhere.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, Home, Kind, engine, setup};
use serde_json::{Value, json};

/// The folder of the installed servers.
fn installed() -> Option<PathBuf> {
    let why = "CI tests with real servers; `make test` installs them";
    setup::folder("TEST_SERVERS", "real servers", why)
}

/// Makes a git repository of two commits by different authors.
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

/// Starts a bridge with these server definitions.
fn bridge(engine: &EngineUnderTest, definitions: &Value) -> Bridge {
    let builder = Builder::new(Some(engine));
    let text = json!({ "mcpServers": definitions }).to_string();
    let file = builder.home().write("mcp.json", text);
    builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .start()
}

const EVERYTHING: &str = r"
print(await mcp_everything.echo(message='hello'))
print(await mcp_everything.get_sum(a=2, b=3))
print((await mcp_everything.get_structured_content(location='Chicago'))['temperature'])
parts = await mcp_everything.get_tiny_image()
print([bytes(part[:4]) for part in parts if isinstance(part, bytes)])
print(await mcp_everything.trigger_long_running_operation(duration=0.1, steps=2))
try:
    await mcp_everything.get_structured_content(location='Paris')
except TypeError as error:
    print(str(error).splitlines()[0])
";

#[test]
fn everything_over_stdio_heavy() {
    engine::with_shared(Kind::Docker, module_path!(), |engine| {
        let Some(servers) = installed() else { return };
        let program = servers.join("node/node_modules/.bin/mcp-server-everything");
        let mut bridge = bridge(engine, &json!({"everything": {"command": program}}));
        let id = bridge.ask(
            "tools/call",
            &json!({"name": "run_python", "_meta": {"progressToken": "p"},
                "arguments": {"code": EVERYTHING, "timeout": 60, "servers": ["everything"]}}),
        );
        let answer = bridge.answer(id, integration_tests::limit(80));
        assert_eq!(
            answer.succeeded(),
            "Echo: hello\nThe sum of 2 and 3 is 5.\n36\n[b'\\x89PNG']\n\
             Long running operation completed. Duration: 0.1 seconds, Steps: 2.\n\
             mcp_everything.get_structured_content() location must be one of 'New York', 'Chicago', 'Los Angeles', not 'Paris'\n"
        );
        let source = "everything.trigger-long-running-operation";
        assert!(
            bridge
                .notifications
                .iter()
                .any(|told| told["params"]["message"] == source),
            "its progress is progress of the call: {:?}",
            bridge.notifications
        );
        bridge.finish();
    });
}

/// Answers every request with a page that names its path, and `/robots.txt` with nothing.
fn web() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut reader = BufReader::new(connection);
            let mut request = String::new();
            if reader.read_line(&mut request).is_err() {
                continue;
            }
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let path = request.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match path {
                "/robots.txt" => ("404 Not Found", String::new()),
                path => ("200 OK", format!("the page {path}")),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn fetch_over_stdio_heavy() {
    engine::with_shared(Kind::Docker, module_path!(), |engine| {
        let Some(servers) = installed() else { return };
        let program = servers.join("python/bin/mcp-server-fetch");
        let definition = json!({"fetch": {"command": program, "args": ["--allow-private-ips"]}});
        let mut bridge = bridge(engine, &definition);
        let code = format!(
            "import asyncio\npages = await asyncio.gather(*(mcp_fetch.fetch(url=f'{}/{{n}}', raw=True) for n in range(3)))\n\
             print([f'the page /{{n}}' in page for n, page in enumerate(pages)])\n\
             try:\n    await mcp_fetch.fetch(url='http://127.0.0.1:1/')\nexcept ToolError as error:\n    print('Failed' in str(error))",
            web()
        );
        let answer = bridge.call(&json!({"code": code, "timeout": 60, "servers": ["fetch"]}));
        assert_eq!(answer.succeeded(), "[True, True, True]\nTrue\n");
        bridge.finish();
    });
}

/// A server of the Python SDK over HTTP, killed when dropped.
struct HttpServer(Child);

impl HttpServer {
    fn start(python: &Path) -> (Self, String) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/sdk/http_server.py");
        let mut child = Command::new(python)
            .args(["-B", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let server = Self(child);
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        std::thread::spawn(move || drop(output.read_to_end(&mut Vec::new())));
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .to_owned();
        (server, url)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SHOP: &str = r"
import asyncio, inspect
print(inspect.signature(NAME.price))
print(sorted(one['total'] for one in await asyncio.gather(*(NAME.price(items=['x'] * n) for n in range(20))))[-1])
try:
    await NAME.fail(reason='sold out')
except ToolError as error:
    print('sold out' in str(error))
";

/// Both major versions of the official Python SDK serve streamable HTTP in one run.
#[test]
fn fastmcp_over_http_heavy() {
    engine::with_shared(Kind::Docker, module_path!(), |engine| {
        let Some(servers) = installed() else { return };
        let (_one, first) = HttpServer::start(&servers.join("sqlite/bin/python"));
        let (_two, second) = HttpServer::start(&servers.join("python/bin/python"));
        let definitions =
            json!({"first": {"type": "http", "url": first}, "second": {"url": second}});
        let mut bridge = bridge(engine, &definitions);
        let code = SHOP.replace("NAME", "mcp_first") + &SHOP.replace("NAME", "mcp_second");
        let answer =
            bridge.call(&json!({"code": code, "timeout": 60, "servers": ["first", "second"]}));
        let once = "(items: list[str], *, currency: str = 'EUR')\n57\nTrue\n";
        assert_eq!(answer.succeeded(), once.repeat(2));
        bridge.finish();
    });
}
