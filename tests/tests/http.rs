//! The server over HTTP: who is let in, what is limited, and that nothing is left behind.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use integration_tests::bridge::Builder;
use integration_tests::{EngineUnderTest, Home, each_engine, limit, process, sdk, until};

const TOKEN: &str = "token-of-the-tests-0123456789";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// A bridge that serves HTTP and is killed when dropped.
struct Listening {
    child: Child,
    address: SocketAddr,
    home: Home,
    log: std::path::PathBuf,
}

impl Listening {
    /// Starts a bridge with a token from a file, or one that it makes.
    fn start(engine: Option<&EngineUnderTest>, has_file: bool) -> Self {
        let mut builder = Builder::new(engine)
            .argument("serve")
            .argument("--http")
            .argument("127.0.0.1:0");
        if engine.is_none() {
            builder = builder.variable("PATH", "/nowhere");
        }
        if has_file {
            let file = builder.home().write("token", format!("{TOKEN}\n"));
            builder = builder.variable("MCP_BRIDGE_HTTP_TOKEN_FILE", file.display().to_string());
        }
        let (mut command, home) = builder.command();
        let log = home.write("log", String::new());
        let stderr = std::fs::File::create(&log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let address = until(limit(20), "the bridge to listen", || {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            let after = told.split_once("serving on http://")?.1;
            after.split_once("/mcp\n")?.0.parse().ok()
        });
        Self {
            child,
            address,
            home,
            log,
        }
    }

    /// Writes a request that asks the server to close, and reads the answer until the connection is
    /// closed or quiet.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(limit(20))).unwrap();
        // The server does not read a request to its end if it rejects it early.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        // The answer is complete even if the connection is reset afterwards.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Posts a body with additional headers; returns the status and the whole answer.
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Host") {
            let _ = write!(request, "Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        let answer = self.ask(&format!("{request}\r\n{body}"));
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.unwrap_or(0), answer)
    }

    fn end(mut self, signal: i32) -> std::process::ExitStatus {
        process::signal(self.child.id(), signal);
        until(limit(15), "the bridge to end", || {
            self.child.try_wait().unwrap()
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn requests_without_the_token_or_from_web_pages_are_rejected() {
    let bridge = Listening::start(None, true);
    let bearer = format!("Bearer {TOKEN}");
    let token = ("Authorization", bearer.as_str());
    for wrong in ["Bearer nonsense-nonsense", "Basic dDp0", "Bearer"] {
        let (status, answer) = bridge.post("/mcp", &[("Authorization", wrong)], INITIALIZE);
        assert_eq!(status, 401, "{wrong}: {answer}");
        assert!(
            answer.to_lowercase().contains("www-authenticate: bearer"),
            "{answer}"
        );
    }
    assert_eq!(bridge.post("/mcp", &[], INITIALIZE).0, 401);
    assert_eq!(bridge.post("/other", &[token], INITIALIZE).0, 404);
    for (name, value) in [
        ("Origin", "https://example.org"),
        ("Origin", "null"),
        ("Origin", "http://localhost"),
        ("Host", "example.org"),
        ("Host", "127.0.0.1.example.org"),
    ] {
        let (status, answer) = bridge.post("/mcp", &[token, (name, value)], INITIALIZE);
        assert_eq!(status, 403, "{name}: {value}: {answer}");
    }
    let (status, answer) = bridge.post("/mcp", &[token], INITIALIZE);
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("mcp-code-bridge"), "{answer}");
    let told = std::fs::read_to_string(&bridge.log).unwrap();
    assert!(
        !told.contains(TOKEN),
        "the token must not be printed: {told}"
    );
    assert!(bridge.home.path().exists());
    let status = bridge.end(15);
    assert_eq!(status.code(), Some(128 + 15));
}

#[test]
fn token_is_made_and_printed_if_none_is_given() {
    let bridge = Listening::start(None, false);
    let told = std::fs::read_to_string(&bridge.log).unwrap();
    let token = told.split_once("token: ").unwrap().1;
    let token = token.lines().next().unwrap();
    let bearer = format!("Bearer {token}");
    let (status, answer) = bridge.post("/mcp", &[("Authorization", &bearer)], INITIALIZE);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(bridge.post("/mcp", &[], INITIALIZE).0, 401);
}

#[test]
fn invalid_requests_are_rejected_and_the_next_one_is_served() {
    let bridge = Listening::start(None, true);
    let bearer = format!("Bearer {TOKEN}");
    let token = ("Authorization", bearer.as_str());
    for nonsense in [
        "GET\r\n\r\n",
        "\u{0}\u{1}\r\n\r\n",
        "POST /mcp HTTP/9.9\r\n\r\n",
    ] {
        let answer = bridge.ask(nonsense);
        assert!(answer.is_empty() || answer.contains(" 400 "), "{answer}");
    }
    for body in [
        "",
        "{",
        "[]",
        "5",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    ] {
        let (status, answer) = bridge.post("/mcp", &[token], body);
        assert!((400..500).contains(&status), "{body}: {answer}");
    }
    let large = format!("\"{}\"", "x".repeat(33 << 20));
    let (status, answer) = bridge.post("/mcp", &[token], &large);
    // The client may be cut off while it still writes, and then reads nothing.
    assert!(
        status == 413 || answer.is_empty(),
        "{status}: {answer:.300}"
    );
    // Opens as many connections as are allowed, all of them silent.
    let open: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(bridge.address).unwrap())
        .collect();
    assert_eq!(bridge.post("/mcp", &[token], INITIALIZE).0, 200);
    drop(open);
    assert_eq!(bridge.post("/mcp", &[token], INITIALIZE).0, 200);
}

#[test]
fn number_of_clients_is_limited() {
    let bridge = Listening::start(None, true);
    let bearer = format!("Bearer {TOKEN}");
    let token = ("Authorization", bearer.as_str());
    let opened: Vec<_> = (0..17)
        .map(|_| bridge.post("/mcp", &[token], INITIALIZE).1)
        .collect();
    let refused = opened
        .iter()
        .filter(|answer| answer.contains("16 clients are connected already"));
    assert_eq!(refused.count(), 1, "{opened:?}");
    let id = opened[0].lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id")
            .then_some(value.trim())
    });
    let close = format!(
        "DELETE /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: {bearer}\r\nMcp-Session-Id: {}\r\nConnection: close\r\n\r\n",
        bridge.address,
        id.unwrap()
    );
    let closed = bridge.ask(&close);
    assert!(closed.starts_with("HTTP/1.1 20"), "{closed}");
    until(limit(10), "there to be room for another client", || {
        let (_, answer) = bridge.post("/mcp", &[token], INITIALIZE);
        (!answer.contains("connected already")).then_some(())
    });
}

#[test]
fn wrong_addresses_and_token_files_are_named() {
    let run = |arguments: &[&str]| {
        let mut builder = Builder::new(None).argument("serve");
        for argument in arguments {
            builder = builder.argument(argument);
        }
        let (mut command, _home): (Command, Home) = builder.command();
        let output = command.stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), told)
    };
    for address in ["0.0.0.0:80", "8722", "localhost:1", "192.0.2.1:80"] {
        let (code, told) = run(&["--http", address]);
        assert_eq!(code, Some(2), "{address}: {told}");
        assert!(
            told.contains("invalid --http") && told.contains("a loopback address"),
            "{told}"
        );
    }
    let (code, told) = run(&[
        "--http",
        "127.0.0.1:0",
        "--http-token-file",
        "/nowhere/token",
    ]);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("cannot read the token file /nowhere/token"),
        "{told}"
    );
}

fn official_python_client_works_over_http(engine: &EngineUnderTest) {
    let bridge = Listening::start(Some(engine), true);
    let (url, pid) = (format!("http://{}/mcp", bridge.address), bridge.child.id());
    let options = [
        "--engine",
        &engine.address,
        "--url",
        &url,
        "--pid",
        &pid.to_string(),
    ];
    let told = sdk::run(
        "http_job.py",
        &options.map(std::ffi::OsStr::new),
        [("TOKEN", TOKEN)],
    );
    assert!(told.contains(" 0 failed"), "{told}");
    let status = bridge.end(15);
    assert_eq!(status.code(), Some(128 + 15));
    engine.assert_nothing_left_of(pid);
}

fn killed_http_bridge_leaves_nothing(engine: &EngineUnderTest) {
    let bridge = Listening::start(Some(engine), true);
    let bearer = format!("Bearer {TOKEN}");
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"run_python","arguments":{{"code":"while True: pass","yield_after":0.5}},{meta}}}}}"#
    );
    let headers = [
        ("Authorization", bearer.as_str()),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "run_python"),
    ];
    let (status, answer) = bridge.post("/mcp", &headers, &body);
    assert!(status == 200 && answer.contains("running"), "{answer}");
    let pid = bridge.child.id();
    bridge.end(9);
    engine.assert_nothing_left_of(pid);
}

each_engine!(
    official_python_client_works_over_http,
    killed_http_bridge_leaves_nothing
);
