//! The life of a server: starts, deaths, restarts, ends.

use std::path::Path;
use std::time::Duration;

use bridge_upstream::{CallContext, Error, Status};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::time::Instant;

use crate::world::{World, record, recorded, soon, stub, within};

fn starts(path: &Path) -> usize {
    record(path)
        .iter()
        .filter(|line| {
            line.as_str()
                .is_some_and(|line| line.starts_with("started"))
        })
        .count()
}

fn recording(scenario: Value, options: bridge_upstream::Options) -> (World, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap().keep();
    let path = folder.join("record");
    let mut scenario = scenario;
    scenario["record"] = json!(path);
    (
        World::with(&json!({"stub": stub(&scenario)}), options),
        path,
    )
}

#[tokio::test]
async fn log_messages_of_a_server_are_quoted_when_it_ends() {
    let log = |level: &str, data: Value| json!({"notify": ["notifications/message", {"level": level, "logger": "db", "data": data}]});
    let world = World::stub(json!({"calls": {
        "work": [[log("debug", json!("noise")), log("error", json!("no route")), log("warning", json!({"code": 7})), "echo"]],
        "die": [[{"exit": 3}]],
    }}));
    world.call("work", json!({})).await.unwrap();
    let error = world.call("die", json!({})).await.unwrap_err().to_string();
    assert!(
        error.contains("[error] db: no route\n[warning] db: {\"code\":7}"),
        "{error}"
    );
    assert!(!error.contains("noise"), "{error}");
}

#[tokio::test]
async fn death_fails_the_call_at_once_and_the_next_call_starts_afresh() {
    let (world, path) = recording(
        json!({"calls": {
            "die": [[{"stderr": "cannot go on\n"}, {"exit": 3}]],
            "crash": [[{"signal": 6}]],
            "mute": [["close_output"]],
            "wait": [["until_cancelled"]],
        }}),
        World::options(),
    );
    world.call("echo", json!({})).await.unwrap();
    // Another waiting call fails as well.
    let context = soon();
    let (waited, died) = tokio::join!(world.call_with("wait", json!({}), &context), async {
        recorded(&path, |line| line["params"]["name"] == "wait").await;
        world.call("die", json!({})).await
    });
    let text = died.unwrap_err().to_string();
    assert!(
        text.starts_with("server \"stub\" ended during die: exited with code 3 after "),
        "{text}"
    );
    assert!(
        text.contains(
            "; stderr: cannot go on. Whether die took effect is unknown; it was not repeated"
        ),
        "{text}"
    );
    assert!(matches!(waited, Err(Error::Died { .. })), "{waited:?}");
    assert_eq!(starts(&path), 1);
    world.call("echo", json!({})).await.unwrap();
    assert_eq!(starts(&path), 2);

    let text = world
        .call("crash", json!({}))
        .await
        .unwrap_err()
        .to_string();
    assert!(text.contains("was killed by SIGABRT"), "{text}");
    world.call("echo", json!({})).await.unwrap();
    let text = world.call("mute", json!({})).await.unwrap_err().to_string();
    assert!(text.contains("closed its output"), "{text}");
    world.call("echo", json!({})).await.unwrap();
    // Every call was made once.
    for name in ["die", "crash", "mute"] {
        assert_eq!(
            record(&path)
                .iter()
                .filter(|line| line["params"]["name"] == name)
                .count(),
            1,
            "{name}"
        );
    }
    world.upstreams.shutdown().await;
}

#[tokio::test]
async fn server_that_does_not_start_says_why_and_is_left_alone_for_a_while() {
    let greeting = json!([{"stderr": "\u{1b}[31mJIRA_TOKEN is not set\u{1b}[0m\n"}, {"exit": 1}]);
    let (world, path) = recording(json!({"greeting": greeting}), World::options());
    let error = world.call("x", json!({})).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("server \"stub\" did not start: exited with code 1 after "),
        "{text}"
    );
    assert!(text.ends_with("; stderr: JIRA_TOKEN is not set"), "{text}");
    assert_eq!(
        world.upstreams.status(&"stub".into()),
        Status::Failed(error)
    );
    // Somebody may have mended it, so the first retry is immediate. Then the server is left alone.
    world.call("x", json!({})).await.unwrap_err();
    let error = world.call("x", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::BackingOff { .. }), "{error}");
    assert!(
        error.to_string().ends_with("; it is tried again in 1 s"),
        "{error}"
    );
    assert_eq!(starts(&path), 2);
}

#[tokio::test]
async fn slow_start_is_joined_and_not_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gate");
    let gate = UnixListener::bind(&socket).unwrap();
    let (world, path) = recording(
        json!({"greeting": [{"stderr": "downloading 40%\n"}, {"gate": socket}]}),
        World::options(),
    );
    let impatient = async {
        let (held, _) = gate.accept().await.unwrap();
        let error = world
            .call_with("x", json!({}), &within(Duration::from_millis(200)))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::StillStarting { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(
                "(waiting for its answer to initialize); it goes on, and the next call joins it"
            ),
            "{text}"
        );
        assert!(text.ends_with("stderr: downloading 40%"), "{text}");
        assert_eq!(
            world.upstreams.status(&"stub".into()),
            Status::Starting("waiting for its answer to initialize")
        );
        drop(held);
    };
    let context = soon();
    let (result, ()) = tokio::join!(world.call_with("x", json!({}), &context), impatient);
    result.unwrap();
    assert_eq!(starts(&path), 1);
}

#[tokio::test]
async fn start_has_its_own_time_limit() {
    let mut entry = stub(&json!({"greeting": ["until_cancelled"]}));
    entry["startup_timeout_sec"] = json!(3);
    let world = World::with(
        &json!({"stub": entry, "good": stub(&json!({}))}),
        World::options(),
    );
    let mut hanging = std::pin::pin!(world.call("x", json!({})));
    let context = soon();
    let good = world.upstreams.call(
        world.definition("good"),
        "echo",
        crate::world::no_arguments(),
        &context,
    );
    tokio::select! {
        error = &mut hanging => panic!("the good server waited for the bad one, which {error:?}"),
        result = good => drop(result.unwrap()),
    }
    let text = hanging.await.unwrap_err().to_string();
    assert!(
        text.starts_with("server \"stub\" did not start: no answer to initialize within 3 s"),
        "{text}"
    );
}

#[tokio::test]
async fn missing_program_is_reported_with_the_path_that_was_searched() {
    let world = World::with(
        &json!({"stub": {"command": "no-such-program-anywhere"}}),
        World::options(),
    );
    let text = world.call("x", json!({})).await.unwrap_err().to_string();
    assert_eq!(
        text,
        "server \"stub\" did not start: program \"no-such-program-anywhere\" was not found (searched PATH: \
         /usr/bin:/bin); install it, or give its full path as \"command\""
    );
}

#[tokio::test]
async fn stderr_is_drained_whatever_comes() {
    let flood = 4 * 1024 * 1024;
    let world = World::stub(json!({
        "greeting": [{"stderr_flood": flood}],
        "calls": {"t": [[{"stderr_flood": flood}, "echo"]]},
    }));
    world.call("t", json!({})).await.unwrap();
}

#[tokio::test]
async fn unused_server_is_stopped_and_started_again_when_needed() {
    let mut options = World::options();
    options.idle = Duration::from_millis(200);
    let (world, path) = recording(
        json!({"calls": {"busy": [[{"sleep_ms": 500}, "echo"]]}}),
        options,
    );
    // A server that works is not unused, however long it takes.
    world.call("busy", json!({})).await.unwrap();
    assert_eq!(starts(&path), 1);
    let pid = pid(&path);
    until_gone(pid).await;
    assert_eq!(world.upstreams.status(&"stub".into()), Status::NotRunning);
    world.call("echo", json!({})).await.unwrap();
    assert_eq!(starts(&path), 2);
}

/// The id of the process that wrote the first line.
fn pid(path: &Path) -> i32 {
    let first = record(path).remove(0);
    first
        .as_str()
        .unwrap()
        .strip_prefix("started ")
        .unwrap()
        .parse()
        .unwrap()
}

/// Waits for the end of a process, which only its id shows.
async fn until_gone(pid: i32) {
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    for _ in 0..2000 {
        // A zombie that is not waited for (containers do not always have an init) is as good as
        // gone.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if rustix::process::test_kill_process(process).is_err() || stat.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("process {pid} is still there");
}

#[tokio::test]
async fn shutdown_ends_all_servers_with_their_children_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let child = |name: &str| folder.path().join(name);
    let scenario = |name: &str| {
        json!({
            "stubborn": true,
            "greeting": [{"spawn": [["sleep", "1000"], child(name)]}],
        })
    };
    let world = World::new(&[
        ("stub", scenario("a")),
        ("b", scenario("b")),
        ("c", scenario("c")),
    ]);
    for name in ["stub", "b", "c"] {
        let arguments = crate::world::no_arguments();
        world
            .upstreams
            .call(world.definition(name), "echo", arguments, &soon())
            .await
            .unwrap();
    }
    let started = Instant::now();
    world.upstreams.shutdown().await;
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    for name in ["a", "b", "c"] {
        until_gone(
            std::fs::read_to_string(child(name))
                .unwrap()
                .parse()
                .unwrap(),
        )
        .await;
    }
    let error = world
        .call_with("echo", json!({}), &CallContext::default())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::ShuttingDown { .. }), "{error}");
}

#[tokio::test]
async fn shutdown_waits_for_servers_whose_definition_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let scenario = json!({"record": record, "calls": {"long": [["until_cancelled"]]}});
    let world = World::stub(scenario.clone());
    let mut changed = scenario;
    changed["tools"] = json!([]);
    let changed = World::stub(changed);
    let (old, new) = (world.definition("stub"), changed.definition("stub"));
    let context = soon();
    let arguments = || crate::world::no_arguments();
    let call = world.upstreams.call(old, "long", arguments(), &context);
    let (ended, ()) = tokio::join!(call, async {
        recorded(&record, |line| line["params"]["name"] == "long").await;
        let called = world.upstreams.call(new, "echo", arguments(), &context);
        called.await.unwrap();
        // The old server still works on its call when the bridge ends.
        world.upstreams.shutdown().await;
    });
    assert!(matches!(ended, Err(Error::Died { .. })), "{ended:?}");
    let process = rustix::process::Pid::from_raw(pid(&record)).unwrap();
    assert!(rustix::process::test_kill_process(process).is_err());
}

#[tokio::test]
async fn killed_bridge_leaves_no_server_behind() {
    let world = World::new(&[]);
    let (record, child) = (world.path("record"), world.path("child"));
    // The server ignores the end of its input and SIGTERM, and so does its child.
    let scenario = json!({
        "stubborn": true,
        "record": record,
        "greeting": [{"spawn": [["sh", "-c", "trap '' TERM; sleep 1000"], child]}],
    });
    let file = world.path("bridge.json");
    std::fs::write(
        &file,
        json!({"mcpServers": {"stub": stub(&scenario)}}).to_string(),
    )
    .unwrap();
    let mut bridge = tokio::process::Command::new(crate::world::STUB)
        .arg("--hold")
        .arg(&file)
        .stdin(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    recorded(&record, |line| {
        line["method"] == "notifications/initialized"
    })
    .await;
    bridge.kill().await.unwrap();
    until_gone(pid(&record)).await;
    until_gone(std::fs::read_to_string(&child).unwrap().parse().unwrap()).await;
}
