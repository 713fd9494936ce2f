//! Building the guest image: the same bytes each time, from the locked inputs only, and marked if
//! the result is not the committed image.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use integration_tests::bridge::Builder;
use integration_tests::cli::run;
use integration_tests::{Kind, engine};
use serde_json::Value;

use crate::image::{empty_engine, lock_digests};

/// Two builds in different folders, at different times, with different umasks and locales give the
/// same bytes with the committed digest.
#[test]
fn heavy_built_twice_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, umask: &str, locale: &str| {
        let out = folder.path().join(name);
        let script = format!("umask {umask}; exec \"$@\"");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script, "sh"])
            .arg(program())
            .args(["build", "--out"])
            .arg(&out);
        command
            .env("LC_ALL", locale)
            .env("TZ", if umask == "077" { "Asia/Tokyo" } else { "UTC" })
            .current_dir(folder.path());
        let ran = command.output().unwrap();
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        let archive = out.join(format!("guest-base-{}.tar", engine::architecture()));
        std::fs::read(archive).unwrap()
    };
    let first = build("a", "022", "C");
    let second = build("a/longer folder", "077", "tr_TR.UTF-8");
    assert!(first == second, "the two archives differ");
    let committed = std::fs::read(engine::image_archive()).unwrap();
    assert!(
        first == committed,
        "it is not the archive that `make image` built"
    );
}

/// An input with one changed byte is rejected by its digest, before anything is unpacked.
#[test]
fn changed_input_is_rejected() {
    let Some(inputs) = inputs() else {
        return skip("GUEST_IMAGE_INPUTS does not name a folder");
    };
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("inputs");
    std::fs::create_dir(&own).unwrap();
    let architecture = engine::architecture();
    let mut changed = None;
    for entry in std::fs::read_dir(&inputs).unwrap().flatten() {
        let mut bytes = std::fs::read(entry.path()).unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if changed.is_none() && name.starts_with("netbase_") {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            changed = Some(name.clone());
        }
        std::fs::write(own.join(&name), bytes).unwrap();
    }
    let changed = changed.expect("an input to change");
    let ran = Command::new(program())
        .args(["build", "--arch", architecture, "--offline", "--inputs"])
        .arg(&own)
        .arg("--out")
        .arg(folder.path().join("out"))
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .env_remove("GUEST_IMAGE_INPUTS")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success(), "the image was built");
    assert!(
        told.contains("netbase") || told.contains(&changed),
        "the input is named: {told}"
    );
    assert!(
        !folder
            .path()
            .join("out")
            .join(format!("guest-base-{architecture}.tar"))
            .exists()
    );
    assert_eq!(
        std::fs::metadata(&own).unwrap().uid(),
        std::fs::metadata("/proc/self").unwrap().uid()
    );
}

/// What `make demo` does if a pinned file is gone everywhere: it builds from another lock and says
/// so, and the bridge runs only that image. Instead of a lock from apt, which needs a mirror, this
/// uses the committed lock without a package that nothing needs.
#[test]
fn heavy_a_refreshed_lock_is_used_and_marked() {
    const DROPPED: &str = "media-types";
    let Some(inputs) = inputs() else {
        return skip("GUEST_IMAGE_INPUTS does not name a folder");
    };
    let Some(engine) = empty_engine(Kind::Docker) else {
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("inputs")).unwrap();
    for entry in std::fs::read_dir(&inputs).unwrap().flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(DROPPED) {
            std::os::unix::fs::symlink(entry.path(), at("inputs").join(name)).unwrap();
        }
    }
    let committed = format!("guest-image/lock/base.{}.json", engine::architecture());
    let committed = std::fs::read(root.join(committed)).unwrap();
    let mut lock: Value = serde_json::from_slice(&committed).unwrap();
    let packages = lock["inputs"].as_array_mut().unwrap();
    packages.retain(|package| package["name"] != DROPPED);
    std::fs::write(at("refreshed.json"), lock.to_string()).unwrap();
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\ncase \"$1\" in\nlock) cp '{}' \"$last\" ;;\n*) exec '{}' \"$@\" --offline ;;\nesac\n",
        at("refreshed.json").display(),
        program().display()
    );
    std::fs::write(at("program"), script).unwrap();
    std::fs::set_permissions(at("program"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let build = |refresh: &str| {
        let ran = Command::new(root.join("tests/setup/image.sh"))
            .arg(at("out"))
            .env("GUEST_IMAGE_PROGRAM", at("program"))
            .env("GUEST_IMAGE_INPUTS", at("inputs"))
            .env("XDG_CACHE_HOME", at("cache"))
            .env("IMAGE_REFRESH", refresh)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        (ran.status.code(), told)
    };
    let (code, told) = build("");
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains(DROPPED) && told.contains("lock --refresh"),
        "{told}"
    );
    assert!(!at("out/lock").exists());
    let (code, told) = build("1");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("NOT as committed"), "{told}");

    let first_line = |name: &str| {
        let text = std::fs::read_to_string(at(name)).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    let (lock, archive) = (first_line("out/lock"), first_line("out/built"));
    let refreshed = || {
        Builder::new(Some(&engine))
            .variable("MCP_BRIDGE_IMAGE_LOCK", &lock)
            .variable("MCP_BRIDGE_IMAGE_ARCHIVE", &archive)
    };
    let mut bridge = refreshed().start();
    let answer = bridge.run("import os\nprint(os.path.exists('/etc/mime.types'))");
    assert_eq!(answer.succeeded(), "False\n");
    bridge.finish();
    let told = run(refreshed(), &["doctor", "--json"], b"");
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let checks = told["checks"].as_array().unwrap();
    let image = checks.iter().find(|check| check["code"] == "I0").unwrap();
    assert_eq!(image["outcome"], "warn", "{image:#}");
    assert!(
        image["found"].as_str().unwrap().contains(&lock),
        "{image:#}"
    );
    // Without that lock, the bridge expects another image.
    let committed = Builder::new(Some(&engine)).variable("MCP_BRIDGE_IMAGE_ARCHIVE", &archive);
    let mut bridge = committed.variable("MCP_BRIDGE_IMAGE_LOCK", "").start();
    let (config, _) = lock_digests();
    bridge.run("1").failed("error", &config[..19]);
}

/// The folder with the lock's inputs, if there is one.
fn inputs() -> Option<PathBuf> {
    std::env::var_os("GUEST_IMAGE_INPUTS")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn program() -> PathBuf {
    integration_tests::bridge::binary().with_file_name("guest-image")
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn skip(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}
