//! However a bridge ends, and in whatever state, it leaves no container, process or socket.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, each_engine, limit, process, until};
use serde_json::json;

use crate::world;

const SIGINT: i32 = 2;
const SIGHUP: i32 = 1;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Adds a variable to the environment that everything the bridge starts inherits, unless the
/// environment is cleared; returns it.
fn marked(builder: Builder<'_>) -> (Builder<'_>, String) {
    let mark = format!("mark-{}-{:?}", std::process::id(), Instant::now())
        .replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "");
    (builder.variable("TEST_MARK", &mark), mark)
}

fn assert_no_process(mark: &str) {
    until(
        limit(5),
        &format!("every process with {mark} to be gone"),
        || process::marked_with(mark).is_empty().then_some(()),
    );
}

/// Brings a fresh bridge into a state.
type Prepare = fn(&mut Bridge);

/// States in which a bridge can die. Each entry brings a bridge into that state.
fn states() -> Vec<(&'static str, Prepare)> {
    vec![
        ("just started", |_| {}),
        ("initialized", |bridge| {
            bridge.initialize("2025-11-25");
        }),
        ("starting a guest", |bridge| {
            bridge.initialize("2025-11-25");
            bridge.ask_run(&json!({"code": "print(1)"}));
        }),
        ("with an idle session", |bridge| {
            bridge.initialize("2025-11-25");
            bridge.run("x = 1").succeeded();
        }),
        ("running", |bridge| {
            bridge.initialize("2025-11-25");
            bridge.begin(&json!({"code": "while True: pass"}));
        }),
        ("running what ignores signals", |bridge| {
            bridge.initialize("2025-11-25");
            bridge.begin(&json!({"code": "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass\nwhile True: pass"}));
        }),
        ("with children in the guest", |bridge| {
            bridge.initialize("2025-11-25");
            bridge.begin(&json!({"code": "import os, time\nfor _ in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(1000)\ntime.sleep(1000)"}));
        }),
        ("printing", |bridge| {
            bridge.initialize("2025-11-25");
            bridge.begin(&json!({"code": "while True: print('x' * 5000)"}));
        }),
        ("interrupting", |bridge| {
            bridge.initialize("2025-11-25");
            let id = bridge.begin(&json!({"code": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"}));
            bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
        }),
        ("with two sessions and a queue", |bridge| {
            bridge.initialize("2025-11-25");
            bridge
                .call(&json!({"code": "x = 1", "session": "other"}))
                .succeeded();
            bridge.begin(&json!({"code": "import time\ntime.sleep(1000)"}));
            bridge.ask_run(&json!({"code": "print(1)"}));
        }),
    ]
}

fn heavy_sigkill_leaves_nothing_in_any_state(engine: &EngineUnderTest) {
    for (name, prepare) in states() {
        let (builder, mark) = marked(Builder::new(Some(engine)));
        let mut bridge = builder.spawn();
        prepare(&mut bridge);
        let pid = bridge.pid();
        bridge.signal(SIGKILL);
        let died = Instant::now();
        bridge.wait(limit(2));
        engine.assert_nothing_left_of(pid);
        assert_no_process(&mark);
        assert!(
            bridge.home().sockets().is_empty(),
            "a bridge killed {name} left {:?}",
            bridge.home().sockets()
        );
        assert!(
            died.elapsed() < limit(5),
            "{name}: it took {:?}",
            died.elapsed()
        );
    }
}

fn signals_end_the_bridge_cleanly(engine: &EngineUnderTest) {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let (builder, mark) = marked(Builder::new(Some(engine)));
        let mut bridge = builder.start();
        bridge.begin(&json!({"code": "import time\ntime.sleep(1000)", "timeout": 100}));
        let pid = bridge.pid();
        bridge.signal(signal);
        bridge.wait(limit(10));
        engine.assert_nothing_left_of(pid);
        assert_no_process(&mark);
    }
}

fn client_that_disconnects_during_a_run_leaves_nothing(engine: &EngineUnderTest) {
    let (builder, mark) = marked(Builder::new(Some(engine)));
    let mut bridge = builder.start();
    bridge.begin(&json!({"code": "import time\ntime.sleep(1000)", "timeout": 100}));
    let pid = bridge.pid();
    bridge.close_input();
    // The Python SDK waits 2 s before it kills; this test waits longer for a busy engine.
    bridge.wait(limit(10));
    assert_eq!(engine.containers_of(pid), Vec::<String>::new());
    assert_no_process(&mark);
}

fn client_that_disconnects_at_start_leaves_nothing(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge.ask_run(&json!({"code": "print(1)"}));
    let pid = bridge.pid();
    bridge.close_input();
    bridge.wait(limit(10));
    engine.assert_nothing_left_of(pid);
}

/// The engine accepts the request for a container but never answers, as if it hung.
fn container_whose_creation_was_never_answered_is_removed(engine: &EngineUnderTest) {
    for signal in [Some(SIGTERM), None] {
        let (builder, mark) = marked(Builder::new(Some(engine)));
        let socket = builder.home().join("engine.sock");
        let created = unanswered_creation(engine, &socket);
        let (name, _) = engine.environment().remove(0);
        let mut bridge = builder
            .variable(&name, format!("unix://{}", socket.display()))
            .start();
        bridge.ask_run(&json!({"code": "print(1)"}));
        created
            .recv_timeout(limit(20))
            .expect("the bridge asks for a container");
        let pid = bridge.pid();
        match signal {
            Some(signal) => bridge.signal(signal),
            None => bridge.close_input(),
        }
        bridge.wait(limit(15));
        engine.assert_nothing_left_of(pid);
        until(limit(10), "the guardian to be gone", || {
            process::marked_with(&mark).is_empty().then_some(())
        });
    }
}

/// A proxy to the engine that drops the answer to the first request for a container. The receiver
/// gets a message when the container was made.
fn unanswered_creation(engine: &EngineUnderTest, socket: &Path) -> mpsc::Receiver<()> {
    let (_, address) = engine.environment().remove(0);
    let address = address.trim_start_matches("unix://").to_owned();
    let listener = UnixListener::bind(socket).expect("a free path");
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(socket, everybody).expect("own file");
    let (tell, created) = mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let engine = UnixStream::connect(&address).expect("an engine");
            let asked = Arc::new(AtomicBool::new(false));
            let (mut from_client, mut to_engine) = (
                client.try_clone().expect("a descriptor"),
                engine.try_clone().expect("a descriptor"),
            );
            let noted = Arc::clone(&asked);
            std::thread::spawn(move || {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_client.read(&mut bytes) {
                    if String::from_utf8_lossy(&bytes[..count]).contains("/containers/create") {
                        noted.store(true, Ordering::SeqCst);
                    }
                    if to_engine.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                let _ = to_engine.shutdown(std::net::Shutdown::Write);
            });
            let (mut from_engine, mut to_client) = (engine, client);
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_engine.read(&mut bytes) {
                    if asked.load(Ordering::SeqCst) {
                        // The container was made, and the answer is dropped.
                        let _ = tell.send(());
                    } else if to_client.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
                if !asked.load(Ordering::SeqCst) {
                    let _ = to_client.shutdown(std::net::Shutdown::Both);
                }
            });
        }
    });
    created
}

fn each_bridge_has_one_helper_process(engine: &EngineUnderTest) {
    let (builder, mark) = marked(Builder::new(Some(engine)));
    let servers = json!({"mcpServers": {"stub": {
        "command": crate::servers::stub(),
        "args": [json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}).to_string()],
    }}});
    let file = builder.home().write("servers.json", servers.to_string());
    let mut bridge = builder
        .variable("MCP_SERVERS_CONFIG", file.display().to_string())
        .start();
    bridge
        .call(&json!({"code": "print(mcp_stub)", "servers": ["stub"]}))
        .succeeded();
    let helpers: Vec<String> = process::marked_with(&mark)
        .into_iter()
        .filter(|line| !line.starts_with(&format!("{}:", bridge.pid())))
        .collect();
    assert!(
        matches!(helpers.as_slice(), [only] if only.trim_end().ends_with(" guardian")),
        "{helpers:?}"
    );
}

/// Containers of dead bridges are removed at the next start; those of living bridges, of other
/// machines and of other programs stay.
fn leftovers_of_the_dead_are_reaped(engine: &EngineUnderTest) {
    engine.with_testcontainers(|| async {
        let mut living = Bridge::on(engine);
        living.run("x = 1").succeeded();
        let pid = living.pid();
        let mut of_living: Option<HashMap<String, String>> = None;
        for id in engine.containers_of(pid) {
            if let Ok(inspected) = engine.client.inspect_container(&id, None).await {
                of_living = inspected.config.and_then(|config| config.labels);
            }
        }
        let of_living = of_living.expect("a running bridge has a container");
        let with = |key: &str, value: &str| {
            let mut labels = of_living.clone();
            labels.insert(
                "io.mcp-code-bridge.instance".to_owned(),
                "a-bridge-of-the-past".to_owned(),
            );
            labels.insert(format!("io.mcp-code-bridge.{key}"), value.to_owned());
            labels
        };
        let dead = [
            (
                "owner gone",
                world::leftover(engine, with("owner-pid", "4194303")).await,
            ),
            (
                "process ID used again",
                world::leftover(engine, with("owner-start", "1")).await,
            ),
            (
                "machine started again",
                world::leftover(engine, with("boot-id", "0000000000000000")).await,
            ),
        ];
        let mut elsewhere = with("host", "0000000000000000");
        elsewhere.insert(
            "io.mcp-code-bridge.owner-pid".to_owned(),
            "4194303".to_owned(),
        );
        let stays = [
            ("another machine's", world::sleeper(engine, elsewhere).await),
            (
                "a stranger's",
                world::sleeper(
                    engine,
                    HashMap::from([("com.example.app".to_owned(), "1".to_owned())]),
                )
                .await,
            ),
        ];
        let mut next = Bridge::on(engine);
        next.run("1").succeeded();
        for (whose, container) in &dead {
            until(
                limit(10),
                &format!("the container to be reaped: {whose}"),
                || (!is_there(engine, container)).then_some(()),
            );
        }
        for (whose, container) in &stays {
            assert!(
                is_there(engine, container.id()),
                "{whose} container was taken away"
            );
        }
        assert_eq!(
            living.run("print(x)").succeeded(),
            "1\n",
            "a living bridge's guest is left alone"
        );
    });
}

/// Whether a container exists. Uses a connection of its own, since the caller may be inside the
/// engine's async runtime.
fn is_there(engine: &EngineUnderTest, id: &str) -> bool {
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            engine
                .block(engine.client.inspect_container(id, None))
                .is_ok()
        });
        asked.join().unwrap()
    })
}

/// Bridges that are killed at random moments leave no container, process or socket.
fn heavy_killed_at_random(engine: &EngineUnderTest) {
    let count = std::env::var("TEST_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(67_u32);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64 ^ u64::from(std::process::id());
    let mut dead = Vec::new();
    let mut homes = Vec::new();
    let mut marks = Vec::new();
    for _ in 0..count {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (builder, mark) = marked(Builder::new(Some(engine)));
        let mut bridge = builder.spawn();
        bridge.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}));
        bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        for id in 2..5 {
            bridge.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "run_python", "arguments": {"code": "import time\ntime.sleep(0.1)"}}}));
        }
        std::thread::park_timeout(Duration::from_millis(random % 900));
        bridge.signal(SIGKILL);
        bridge.wait(limit(2));
        dead.push(bridge.pid());
        marks.push(mark);
        homes.push(bridge);
    }
    for pid in dead {
        engine.assert_nothing_left_of(pid);
    }
    for mark in marks {
        assert_no_process(&mark);
    }
    for bridge in homes {
        assert!(bridge.home().sockets().is_empty());
    }
}

each_engine!(
    heavy_sigkill_leaves_nothing_in_any_state,
    signals_end_the_bridge_cleanly,
    client_that_disconnects_during_a_run_leaves_nothing,
    client_that_disconnects_at_start_leaves_nothing,
    container_whose_creation_was_never_answered_is_removed,
    each_bridge_has_one_helper_process,
    leftovers_of_the_dead_are_reaped,
    heavy_killed_at_random,
);
