//! The program `guest-image`, as people and scripts use it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use guest_image::{Architecture, Digests, Lock, committed};

/// Runs the program with its own cache and no other sources.
fn run(cache: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guest-image"))
        .args(arguments)
        .env("XDG_CACHE_HOME", cache)
        .env_remove("GUEST_IMAGE_INPUTS")
        .env_remove("GUEST_IMAGE_MIRROR")
        .env_remove("GUEST_IMAGE_SNAPSHOT")
        .output()
        .expect("the program was built")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn digest_lock_and_sbom_describe_the_committed_image() {
    let cache = tempfile::tempdir().unwrap();
    for architecture in Architecture::ALL {
        let name = architecture.name();
        let digests = committed("base", name).unwrap();
        let output = run(cache.path(), &["digest", "--arch", name]);
        assert_eq!(stdout(&output), format!("{}\n", digests.manifest));
        let output = run(cache.path(), &["digest", "--arch", name, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["diff_ids"], serde_json::json!(digests.diff_ids));
        let output = run(cache.path(), &["lock", "--arch", name]);
        let lock = Lock::parse(&output.stdout).unwrap();
        assert_eq!(lock, Lock::embedded("base", architecture).unwrap());
        let output = run(cache.path(), &["sbom", "--arch", name]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let manifest = digests.manifest.trim_start_matches("sha256:");
        assert_eq!(
            json["packages"][0]["checksums"][0]["checksumValue"],
            manifest
        );
    }
}

#[test]
fn wrong_usage_and_failure_have_different_exit_codes() {
    let cache = tempfile::tempdir().unwrap();
    for arguments in [
        &["build", "--what"][..],
        &[],
        &["verify"],
        &["lock", "--arch", "riscv64"],
    ] {
        assert_eq!(
            run(cache.path(), arguments).status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
    let output = run(cache.path(), &["digest", "--flavour", "none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no committed digests for none"),
        "{}",
        stderr(&output)
    );
    let output = run(cache.path(), &["build", "--flavour", "none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("base.amd64"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn missing_inputs_are_named_with_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let output = run(cache.path(), &["build", "--offline", "--arch", "amd64"]);
    assert_eq!(output.status.code(), Some(4));
    let message = stderr(&output);
    for input in Lock::embedded("base", Architecture::Amd64).unwrap().inputs {
        assert!(message.contains(&input.file_name()), "{message}");
    }
    for word in [
        "offline",
        "--inputs",
        "GUEST_IMAGE_SNAPSHOT",
        "lock --refresh",
        "MCP_BRIDGE_IMAGE_LOCK",
    ] {
        assert!(message.contains(word), "{word} in {message}");
    }
}

#[test]
fn input_with_one_changed_byte_is_rejected() {
    let cache = tempfile::tempdir().unwrap();
    let inputs = tempfile::tempdir().unwrap();
    let lock = Lock::embedded("base", Architecture::Amd64).unwrap();
    let input = &lock.inputs[0];
    let mut data = vec![0; usize::try_from(input.size()).unwrap()];
    data[7] = 1;
    fs::write(inputs.path().join(input.file_name()), data).unwrap();
    let folder = inputs.path().to_str().unwrap();
    let output = run(
        cache.path(),
        &["build", "--arch", "amd64", "--inputs", folder],
    );
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains(input.sha256()),
        "{}",
        stderr(&output)
    );
}

#[test]
fn archive_of_another_image_is_rejected() {
    let cache = tempfile::tempdir().unwrap();
    let archive = cache.path().join("x.tar");
    fs::write(&archive, vec![0; 2048]).unwrap();
    let output = run(
        cache.path(),
        &["verify", "--arch", "amd64", archive.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let output = run(cache.path(), &["verify", "--arch", "amd64", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

#[test]
fn digests_of_the_users_own_lock_are_read_beside_it() {
    let cache = tempfile::tempdir().unwrap();
    let path = cache.path().join("mine.json");
    let lock = Lock::embedded("base", Architecture::Arm64).unwrap();
    fs::write(&path, lock.to_json().unwrap()).unwrap();
    let name = path.to_str().unwrap();
    assert_eq!(
        run(cache.path(), &["digest", "--lock", name]).status.code(),
        Some(1)
    );
    let mut digests = committed("base", "arm64").unwrap();
    digests.archive_bytes = None;
    digests.write(&lock, &path).unwrap();
    assert_eq!(Digests::read(&path).unwrap(), digests);
    let output = run(cache.path(), &["digest", "--lock", name]);
    assert_eq!(stdout(&output), format!("{}\n", digests.manifest));
}
