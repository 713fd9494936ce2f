//! Containers are made from the locked image only.

use std::path::{Path, PathBuf};
use std::process::Command;

use bollard::query_parameters::TagImageOptionsBuilder;
use integration_tests::bridge::Builder;
use integration_tests::cli::run;
use integration_tests::{Bridge, EngineUnderTest, Kind, each_engine, engine, limit, until};
use serde_json::{Value, json};

use crate::archive::Archive;
use crate::world;

/// A private engine without the image.
pub(crate) fn empty_engine(kind: Kind) -> Option<EngineUnderTest> {
    EngineUnderTest::private(kind)
}

/// Asserts that a run is rejected before a container exists, with an error that holds these words.
#[track_caller]
fn assert_refused(engine: &EngineUnderTest, builder: Builder<'_>, words: &[&str]) {
    let mut bridge = builder.start();
    let answer = bridge.run("print('ran')");
    assert_eq!(answer.status(), "error", "{:#}", answer.0);
    assert_eq!(answer.stdout(), "");
    for word in words {
        assert!(
            answer.text().contains(word),
            "{word:?} is told: {}",
            answer.text()
        );
    }
    let events = engine.containers("io.mcp-code-bridge.instance");
    assert!(events.is_empty(), "no container may exist: {events:?}");
    bridge.finish();
}

/// A changed archive that the bridge's user can read.
fn tampered(builder: Builder<'_>, change: impl FnOnce(&mut Archive)) -> (Builder<'_>, PathBuf) {
    let mut archive = Archive::read(&engine::image_archive());
    change(&mut archive);
    let path = builder.home().write("tampered.tar", "");
    archive.write(&path);
    (
        builder.variable("MCP_BRIDGE_IMAGE_ARCHIVE", path.display().to_string()),
        path,
    )
}

pub(crate) fn lock_digests() -> (String, String) {
    let digests = engine::image_digests();
    (digests.config, digests.manifest)
}

fn absent_image(kind: Kind) {
    let Some(engine) = empty_engine(kind) else {
        return;
    };
    let nowhere = || Builder::new(Some(&engine)).variable("MCP_BRIDGE_IMAGE_ARCHIVE", "");
    assert_refused(&engine, nowhere(), &["image", "mcp-code-bridge image"]);
    let missing = nowhere().variable("MCP_BRIDGE_IMAGE_ARCHIVE", "/no/such/archive.tar");
    assert_refused(&engine, missing, &["/no/such/archive.tar"]);

    // Another image under the same name is not accepted.
    let foreign = tampered(nowhere(), |archive| {
        archive.change_config(|config| {
            config["config"]["Env"]
                .as_array_mut()
                .unwrap()
                .push(json!("EVIL=1"));
        });
    });
    engine.load(&foreign.1);
    assert_refused(&engine, nowhere(), &["image"]);

    // An archive with another config or a changed layer is rejected too.
    let (config, _) = lock_digests();
    assert_refused(&engine, foreign.0, &[&config[..19]]);
    let (damaged, _) = tampered(nowhere(), Archive::damage_layer);
    assert_refused(&engine, damaged, &["image"]);

    // The right archive is loaded with progress, and then code runs.
    let mut bridge = Bridge::on(&engine);
    let id = bridge.ask(
        "tools/call",
        &json!({"name": "run_python", "arguments": {"code": "print('ran')"}, "_meta": {"progressToken": "load"}}),
    );
    let answer = bridge.answer(id, limit(60));
    assert_eq!(answer.succeeded(), "ran\n");
    let progress: Vec<&Value> = bridge
        .notifications
        .iter()
        .filter(|message| message["method"] == "notifications/progress")
        .collect();
    assert!(progress.len() >= 2, "the load is reported: {progress:?}");
    assert!(
        progress
            .iter()
            .all(|message| message["params"]["progressToken"] == "load")
    );
    let counts: Vec<f64> = progress
        .iter()
        .filter_map(|message| message["params"]["progress"].as_f64())
        .collect();
    assert!(
        counts.windows(2).all(|pair| pair[0] <= pair[1]),
        "progress never goes back: {counts:?}"
    );
}

#[test]
fn heavy_absent_and_tampered_docker() {
    absent_image(Kind::Docker);
}

#[test]
fn heavy_absent_and_tampered_podman_rootful() {
    absent_image(Kind::PodmanRootful);
}

#[test]
fn heavy_absent_and_tampered_podman_rootless() {
    absent_image(Kind::PodmanRootless);
}

/// An image for another architecture is rejected by name, not with `exec format error`.
#[test]
fn heavy_another_architecture_is_named() {
    let Some(engine) = empty_engine(Kind::Docker) else {
        return;
    };
    let builder = Builder::new(Some(&engine));
    let other = if engine::architecture() == "amd64" {
        "arm64"
    } else {
        "amd64"
    };
    let mut identity = (String::new(), String::new());
    let (builder, path) = tampered(builder, |archive| {
        identity = archive.change_config(|config| config["architecture"] = other.into());
    });
    engine.load(&path);
    let lock = guest_image_lock(&builder, &identity, other);
    assert_refused(
        &engine,
        builder.variable("MCP_BRIDGE_IMAGE_LOCK", lock.display().to_string()),
        &[other],
    );
}

/// Writes a lock and its digests to a bridge's home.
fn guest_image_lock(
    builder: &Builder<'_>,
    (manifest, config): &(String, String),
    architecture: &str,
) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-image/lock");
    let name = format!("base.{}", engine::architecture());
    let lock = builder.home().write(
        "lock/mine.json",
        std::fs::read(folder.join(format!("{name}.json"))).unwrap(),
    );
    let mut digests: Value =
        serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.digest.json"))).unwrap())
            .unwrap();
    digests["manifest"] = manifest.as_str().into();
    digests["config"] = config.as_str().into();
    digests["architecture"] = architecture.into();
    builder
        .home()
        .write("lock/mine.digest.json", digests.to_string());
    lock
}

/// The engine does not notice a changed file in its own store, but `verify --deep` hashes it.
#[test]
fn heavy_a_changed_store_is_found_by_deep_verification() {
    let Some(engine) = empty_engine(Kind::Docker) else {
        return;
    };
    engine.ensure_image();
    let deep = || {
        run(
            Builder::new(Some(&engine)),
            &["image", "verify", "--deep"],
            b"",
        )
    };
    let ran = deep();
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let store = engine.folder.as_ref().unwrap().join("data/overlay2");
    let entry =
        find(&store, "opt/guest/entry.py").expect("the layer lies unpacked in docker's store");
    let mut source = std::fs::read(&entry).unwrap();
    source[0] ^= 1;
    std::fs::write(&entry, source).unwrap();
    let ran = deep();
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    assert!(
        format!("{}{}", ran.stdout, ran.stderr).contains("sha256:"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

fn find(store: &Path, path: &str) -> Option<PathBuf> {
    let layers = std::fs::read_dir(store).ok()?.flatten();
    layers
        .map(|layer| layer.path().join("diff").join(path))
        .find(|path| path.exists())
}

/// The bridge uses the image's ID, so moving its tag changes nothing.
fn moved_image_tag_is_ignored(engine: &EngineUnderTest) {
    let (config, manifest) = lock_digests();
    for id in [config, manifest] {
        let options = TagImageOptionsBuilder::new()
            .repo("localhost/moved")
            .tag("1")
            .build();
        let _ = engine.block(engine.client.tag_image(&id, Some(options)));
    }
    assert_eq!(Bridge::on(engine).run("print('ran')").succeeded(), "ran\n");
}

fn container_runs_the_locked_image(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge.run("1").succeeded();
    let (config, manifest) = lock_digests();
    let image = until(limit(10), "a container that stays", || {
        let owned = engine.containers_of(bridge.pid());
        let inspected = engine.block(engine.client.inspect_container(owned.first()?, None));
        inspected.ok()?.image
    });
    let image = format!("sha256:{}", image.trim_start_matches("sha256:"));
    assert!([config, manifest].contains(&image), "{image}");
}

/// Checks the image's unpacked size, what it must not hold, and that every module is precompiled.
fn image_is_small_and_complete(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let answer = bridge.call(&json!({"code": include_str!("probes/image.py"), "timeout": 60}));
    let found: Value = serde_json::from_str(answer.succeeded()).unwrap();
    let megabytes = found["bytes"].as_u64().unwrap() / 1_000_000;
    assert!(megabytes <= 48, "{megabytes} MB unpacked");
    assert_eq!(found["not_compiled"], json!([]));
    assert_eq!(found["failed_imports"], json!([]));
    assert_eq!(found["python"], "3.14");
}

/// Runs the guest's own unit tests on the image's Python.
fn heavy_runtime_tests_pass_on_the_images_python(engine: &EngineUnderTest) {
    if engine.kind != Kind::Docker {
        return; // every engine runs the same Python
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let python = std::env::var("TEST_PYTHON").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/.cache/venv/bin/python").to_owned()
    });
    let asked = Command::new(python)
        .args([
            "-c",
            "import pytest, os; print(os.path.dirname(os.path.dirname(pytest.__file__)))",
        ])
        .output()
        .unwrap();
    let packages = PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim());
    assert!(
        packages.exists(),
        "pytest is in the tests' Python environment: {}",
        String::from_utf8_lossy(&asked.stderr)
    );
    engine.with_testcontainers(|| async move {
        let tests = root.join("guest-image/runtime-tests");
        let runtime = root.join("guest-image/runtime");
        let (code, told) = world::python(
            engine,
            &[
                "-B",
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                "/src/guest-image/runtime-tests",
            ],
            &[
                (&packages, "/site"),
                (&tests, "/src/guest-image/runtime-tests"),
                (&runtime, "/src/guest-image/runtime"),
            ],
            &[("PYTHONPATH", "/site")],
        )
        .await;
        assert_eq!(code, 0, "{told}");
        assert!(told.contains(" passed"), "{told}");
    });
}

each_engine!(
    moved_image_tag_is_ignored,
    container_runs_the_locked_image,
    image_is_small_and_complete,
    heavy_runtime_tests_pass_on_the_images_python,
);
