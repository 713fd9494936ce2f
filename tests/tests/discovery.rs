//! Engines are found where users have them.

use std::os::unix::fs::symlink;

use integration_tests::bridge::Builder;
use integration_tests::{EngineUnderTest, Kind, each_engine, limit, process, until};
use serde_json::{Value, json};

use crate::archive::sha256;

/// A bridge for an engine that is not told the engine's address.
fn untold(engine: &EngineUnderTest) -> Builder<'_> {
    Builder::new(Some(engine))
        .variable("DOCKER_HOST", "")
        .variable("CONTAINER_HOST", "")
}

fn socket(engine: &EngineUnderTest) -> &str {
    engine.address.strip_prefix("unix://").unwrap()
}

fn podman_socket_of_the_user_is_found(engine: &EngineUnderTest) {
    if engine.kind == Kind::Docker {
        return;
    }
    let builder = untold(engine);
    builder.home().write("run/podman/.keep", "");
    symlink(
        socket(engine),
        builder.home().join("run/podman/podman.sock"),
    )
    .unwrap();
    let mut bridge = builder.start();
    assert_eq!(bridge.run("print('found')").succeeded(), "found\n");
    bridge.finish();
}

fn current_docker_context_is_found(engine: &EngineUnderTest) {
    if engine.kind != Kind::Docker {
        return;
    }
    let builder = untold(engine);
    let home = builder.home();
    home.write(
        "home/.docker/config.json",
        json!({"currentContext": "mine"}).to_string(),
    );
    let meta = json!({"Name": "mine", "Metadata": {}, "Endpoints": {"docker": {"Host": engine.address, "SkipTLSVerify": false}}});
    home.write(
        &format!("home/.docker/contexts/meta/{}/meta.json", sha256(b"mine")),
        meta.to_string(),
    );
    let mut bridge = builder.start();
    assert_eq!(bridge.run("print('found')").succeeded(), "found\n");
    bridge.finish();
}

/// If podman is installed and no socket answers, the bridge starts the service, and ends it when it
/// ends itself.
fn heavy_podman_is_started_and_ended(engine: &EngineUnderTest) {
    if engine.kind != Kind::PodmanRootless {
        return;
    }
    let mark = format!("service-{}", std::process::id());
    let mut builder = untold(engine)
        .variable("MCP_BRIDGE_RUNTIME", "podman")
        .variable("TEST_MARK", &mark);
    if let Some(folder) = &engine.folder {
        // The store and the settings that podman's command line needs on this machine.
        for (variable, name) in [
            ("CONTAINERS_CONF", "containers.conf"),
            ("CONTAINERS_STORAGE_CONF", "storage.conf"),
            ("XDG_RUNTIME_DIR", "xdg"),
            ("HOME", "home"),
        ] {
            builder = builder.variable(variable, folder.join(name).display().to_string());
        }
    }
    let mut bridge = builder.start();
    let id = bridge.ask_run(&json!({"code": "print('started')", "timeout": 100}));
    assert_eq!(bridge.answer(id, limit(100)).succeeded(), "started\n");
    let service = |process: &String| process.contains("system service");
    assert!(
        process::marked_with(&mark).iter().any(service),
        "podman's service runs: {:?}",
        process::marked_with(&mark)
    );
    bridge.finish();
    until(limit(5), "the service to be ended", || {
        (!process::marked_with(&mark).iter().any(service)).then_some(())
    });
}

#[test]
fn error_names_every_address_that_was_tried() {
    let mut bridge = Builder::new(None)
        .variable("PATH", "/nowhere")
        .variable("CONTAINER_HOST", "unix:///no/such/podman.sock")
        .variable("DOCKER_HOST", "unix:///no/such/docker.sock")
        .start();
    let answer = bridge.run("print(1)");
    answer.failed("error", "no container engine answers");
    assert!(answer.text().contains("/no/such/"), "{}", answer.text());
    let reason: &Value = answer.field("reason");
    assert_eq!(reason, "E0");
    bridge.finish();
}

each_engine!(
    podman_socket_of_the_user_is_found,
    current_docker_context_is_found,
    heavy_podman_is_started_and_ended
);
