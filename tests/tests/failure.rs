//! Failures of the environment give a clear error, and nothing hangs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, Kind, each_engine, limit};
use serde_json::json;

fn engine_that_dies_during_a_run_is_an_error(kind: Kind) {
    let Some(engine) = EngineUnderTest::private(kind) else {
        return;
    };
    engine.ensure_image();
    let mut bridge = Builder::new(Some(&engine))
        .variable("MCP_BRIDGE_SPARE", "off")
        .start();
    let id = bridge.begin(&json!({"code": "import time\ntime.sleep(60)", "timeout": 60}));
    engine.kill_service();
    let answer = bridge.answer(id, limit(15));
    assert_eq!(answer.status(), "error", "{:#}", answer.0);
    assert!(!answer.error().is_empty());
    assert_eq!(answer.state(), "lost");
    let id = bridge.ask_run(&json!({"code": "print(1)"}));
    let answer = bridge.answer(id, limit(30));
    answer.failed("error", "engine");
    bridge.finish();
}

#[test]
fn heavy_docker_dies_mid_run() {
    engine_that_dies_during_a_run_is_an_error(Kind::Docker);
}

#[test]
fn heavy_podman_dies_mid_run() {
    engine_that_dies_during_a_run_is_an_error(Kind::PodmanRootless);
}

/// The engine's disk is a small file system that becomes full.
#[test]
fn heavy_full_disk_is_named() {
    let Some(probe) = EngineUnderTest::shared(Kind::Docker) else {
        return;
    };
    drop(probe);
    let folder = tempfile::Builder::new().prefix("mcb.").tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(mounted.success(), "a tmpfs can be mounted");
    let full = Full(folder.path().to_owned());
    let mut bridge = {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines/docker.sh");
        let started = Command::new(script)
            .arg("start")
            .arg(folder.path().join("e"))
            .status()
            .unwrap();
        assert!(started.success());
        Builder::new(None)
            .variable(
                "DOCKER_HOST",
                format!("unix://{}/e/docker.sock", folder.path().display()),
            )
            .variable(
                "MCP_BRIDGE_IMAGE_ARCHIVE",
                integration_tests::engine::image_archive()
                    .display()
                    .to_string(),
            )
            .start()
    };
    let answer = bridge.call(&json!({"code": "print(1)", "timeout": 60}));
    answer.failed("error", "no space left");
    drop(bridge);
    drop(full);
}

/// A mounted file system that holds docker's data.
struct Full(std::path::PathBuf);

impl Drop for Full {
    fn drop(&mut self) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines/docker.sh");
        let _ = Command::new(script)
            .arg("stop")
            .arg(self.0.join("e"))
            .status();
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Code that needs no state still runs; code that saves something gets an error.
fn code_runs_with_an_unwritable_state_folder(engine: &EngineUnderTest) {
    let builder = Builder::new(Some(engine));
    let locked = builder.home().write("locked/file", "");
    // Root can write anywhere, but not into a file that is in the folder's place.
    std::fs::set_permissions(
        locked.parent().unwrap(),
        std::fs::Permissions::from_mode(0o500),
    )
    .unwrap();
    let below = locked.join("below").display().to_string();
    let mut bridge = builder
        .variable("MCP_BRIDGE_STATE_DIR", &below)
        .variable("XDG_STATE_HOME", &below)
        .variable("XDG_CACHE_HOME", &below)
        .variable("XDG_CONFIG_HOME", &below)
        .start();
    let answer = bridge.run("print('ran')");
    assert!(
        answer.status() == "success" || answer.text().contains(&below),
        "it runs, or names the folder: {}",
        answer.text()
    );
    bridge.finish();
}

#[test]
fn malformed_input_does_not_end_the_bridge() {
    let mut bridge = Builder::new(None).variable("PATH", "/nowhere").start();
    for line in [
        "",
        "   ",
        "{",
        "null",
        "[]",
        "\"text\"",
        "17",
        "{}",
        "{\"jsonrpc\":\"2.0\"}",
        "\u{feff}{}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":4711}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/no-such\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":90001,\"method\":\"tools/call\",\"params\":[]}",
        "{\"jsonrpc\":\"2.0\",\"id\":90002,\"method\":\"tools/call\"}",
    ] {
        bridge.write(line.as_bytes());
        bridge.write(b"\n");
    }
    bridge.write(b"\xff\xfe\x00\n");
    bridge.write(format!("{}\n", "[".repeat(100_000)).as_bytes());
    bridge.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":90003,\"method\":\"tools/call\",\"params\":{{\"name\":\"run_python\",\"arguments\":{{\"code\":\"{}\"}}}}}}\n", r"\ud800").as_bytes());
    let id = bridge.ask("ping", &json!({}));
    bridge.response(id, limit(10));
    bridge.finish();
}

fn lone_surrogates_do_not_end_the_connection(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let raw = r#"{"jsonrpc":"2.0","id":70000,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"print('\ud800')"}}}"#;
    bridge.write(raw.as_bytes());
    bridge.write(b"\n");
    // Whether the JSON is rejected or Python fails to print the text, the connection goes on.
    assert_eq!(bridge.run("print('next')").succeeded(), "next\n");
    // Printing one is an error in Python or is made visible, but never lost silently.
    let answer = bridge.run("print('\\ud800')");
    assert!(
        answer.status() == "error" && answer.text().contains("surrogates")
            || answer.stdout().trim() == "\\ud800",
        "{:#}",
        answer.0
    );
    assert_eq!(
        bridge.run("print(ascii('\\udcff'))").succeeded(),
        "'\\udcff'\n"
    );
    bridge.run("'\\ud800'").succeeded();
    bridge
        .run("raise ValueError('\\ud800')")
        .failed("error", "ValueError");
    assert_eq!(bridge.run("print('next')").succeeded(), "next\n");
}

each_engine!(
    code_runs_with_an_unwritable_state_folder,
    lone_surrogates_do_not_end_the_connection,
);
