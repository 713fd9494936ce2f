//! The bridge under test: a process of its own that speaks raw JSON-RPC lines and is killed when
//! dropped.
//!
//! Every read has a deadline, and every line on the bridge's standard output must be a JSON-RPC
//! message.

mod builder;

use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engine::EngineUnderTest;
use crate::home::Home;
use crate::wait::{limit, until};
use crate::{Answer, process};

pub use builder::Builder;

/// A running bridge and its connection.
pub struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<Vec<u8>>>,
    home: Home,
    next_id: u64,
    responses: HashMap<u64, Value>,
    /// Notifications and requests of the server that arrived while waiting for something else.
    pub notifications: Vec<Value>,
    engine_kept: bool,
}

/// The bridge's program: `TEST_BRIDGE`, else the one beside the running test.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn binary() -> PathBuf {
    let path = env::var_os("TEST_BRIDGE").map_or_else(
        || {
            let test = env::current_exe().expect("a running test has a path");
            let folder = test
                .parent()
                .and_then(Path::parent)
                .expect("tests are run from target/PROFILE/deps");
            folder.join("mcp-code-bridge")
        },
        PathBuf::from,
    );
    assert!(
        path.exists(),
        "no bridge at {}: run `cargo build --workspace`",
        path.display()
    );
    path
}

fn read_lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::with_capacity(1 << 20, output).lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn collect(mut output: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&collected);
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend_from_slice(&buffer[..count]);
        }
    });
    collected
}

impl Bridge {
    /// Starts and initializes a bridge for an engine.
    #[must_use]
    pub fn on(engine: &EngineUnderTest) -> Self {
        Builder::new(Some(engine)).start()
    }

    /// The process ID of the bridge.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The home folder of the bridge.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// All that the bridge has written to standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }

    /// Writes raw bytes to the bridge's standard input.
    ///
    /// # Panics
    /// If the bridge does not read them.
    pub fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("its standard input is open");
        stdin
            .write_all(bytes)
            .and_then(|()| stdin.flush())
            .expect("the bridge reads its standard input");
    }

    /// Sends one message as a line.
    pub fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request and returns its ID.
    pub fn ask(&mut self, method: &str, parameters: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        id
    }

    /// Reads the next message of any kind.
    ///
    /// # Panics
    /// If none arrives in time, the bridge has ended, or the line is not a JSON-RPC message.
    #[track_caller]
    pub fn message(&mut self, within: Duration) -> Value {
        match self.lines.recv_timeout(within) {
            Ok(line) => {
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
                    panic!("standard output carries protocol only, not {line:?} ({error})")
                });
                assert_eq!(message["jsonrpc"], "2.0", "a JSON-RPC message: {line:.300}");
                message
            }
            Err(RecvTimeoutError::Timeout) => {
                panic!("no message within {within:?}; stderr:\n{}", self.stderr())
            }
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the bridge closed its output; stderr:\n{}", self.stderr())
            }
        }
    }

    /// Reads the response to a request, a result or an error; other messages go to `notifications`.
    ///
    /// # Panics
    /// If that does not happen in time.
    #[track_caller]
    pub fn response(&mut self, id: u64, within: Duration) -> Value {
        let start = Instant::now();
        loop {
            if let Some(response) = self.responses.remove(&id) {
                return response;
            }
            let message = self.message(within.saturating_sub(start.elapsed()));
            match message["id"].as_u64() {
                Some(answered) if message.get("method").is_none() => {
                    self.responses.insert(answered, message);
                }
                _ => self.notifications.push(message),
            }
        }
    }

    /// Sends a request and waits for its result.
    ///
    /// # Panics
    /// On an error, or without a response in time.
    #[track_caller]
    pub fn request(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.ask(method, parameters);
        let mut response = self.response(id, limit(40));
        assert!(
            response.get("error").is_none(),
            "{method} failed: {:#}",
            response["error"]
        );
        response["result"].take()
    }

    /// Makes the handshake of the protocols up to 2025-11-25; returns the server's result.
    pub fn initialize(&mut self, version: &str) -> Value {
        let result = self.request(
            "initialize",
            &json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "0"}}),
        );
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        result
    }

    /// Sends a call of `run_python` with these arguments and returns the request's ID.
    pub fn ask_run(&mut self, arguments: &Value) -> u64 {
        self.ask(
            "tools/call",
            &json!({"name": "run_python", "arguments": arguments}),
        )
    }

    /// Reads the answer to an earlier call.
    ///
    /// # Panics
    /// If it does not arrive in time or is a protocol error.
    #[track_caller]
    pub fn answer(&mut self, id: u64, within: Duration) -> Answer {
        let mut response = self.response(id, within);
        assert!(
            response.get("error").is_none(),
            "the call is answered with a protocol error: {:#}",
            response["error"]
        );
        Answer(response["result"].take())
    }

    /// Calls `run_python` with these arguments.
    #[track_caller]
    pub fn call(&mut self, arguments: &Value) -> Answer {
        let id = self.ask_run(arguments);
        self.answer(id, limit(60))
    }

    /// Runs code in the connection's own session.
    #[track_caller]
    pub fn run(&mut self, code: &str) -> Answer {
        self.call(&json!({"code": code}))
    }

    /// Sends a call, waits until the guest runs its code and returns the request's ID. A line in
    /// front of the code gives the guest's process a name that the kernel shows outside as well.
    ///
    /// # Panics
    /// If the code does not begin in time.
    pub fn begin(&mut self, arguments: &Value) -> u64 {
        let marker = format!("b{:x}-{:x}", self.pid(), self.next_id);
        let code = arguments["code"].as_str().unwrap_or_default();
        let mut arguments = arguments.clone();
        arguments["code"] =
            format!("open('/proc/self/comm', 'w').write('{marker}')\n{code}").into();
        let id = self.ask_run(&arguments);
        until(limit(40), "the code to begin", || {
            process::named(&marker).map(drop)
        });
        id
    }

    /// Closes the bridge's standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal by number to the bridge.
    pub fn signal(&self, number: i32) {
        process::signal(self.pid(), number);
    }

    /// Waits for the end of the bridge.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        until(within, "the bridge to end", || {
            self.child.try_wait().expect("a child can be waited for")
        })
    }

    /// Closes the input, as a client does in the end, and asserts that the bridge ends cleanly and
    /// soon.
    ///
    /// # Panics
    /// If the bridge does not end in time, or fails.
    #[track_caller]
    pub fn finish(mut self) {
        self.close_input();
        // The bridge waits 8 s for a slow engine.
        let status = self.wait(limit(10));
        assert!(
            status.success(),
            "the bridge ended with {status}; stderr:\n{}",
            self.stderr()
        );
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // Closes the pipe as a client does, and kills a bridge that ignores it.
        self.stdin = None;
        let patience = if self.engine_kept { limit(5) } else { limit(2) };
        let start = Instant::now();
        while start.elapsed() < patience && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
