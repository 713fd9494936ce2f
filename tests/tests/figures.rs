//! Packages from Python's index in the guest image, end to end: from a folder of wheels over a lock
//! and an image to figures that a client sees.
//!
//! `tests/setup/wheels.sh` downloads the wheels and `TEST_WHEELS` names their folder; without them
//! the test fails in CI and is skipped elsewhere. It runs on one engine, since other tests cover
//! the differences between engines with pictures that need no packages.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use integration_tests::bridge::Builder;
use integration_tests::{EngineUnderTest, Kind, cli, sdk, setup};

/// The folder of the wheels.
fn wheels() -> Option<PathBuf> {
    let why = "CI draws with matplotlib; `make test` downloads it";
    setup::folder("TEST_WHEELS", "wheels", why)
}

/// Runs `guest-image` with a cache below `folder`; returns its exit status, stdout and stderr.
fn guest_image<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> (Option<i32>, String, String) {
    let ran = Command::new(integration_tests::bridge::binary().with_file_name("guest-image"))
        .args(arguments)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

/// Builds the image with these wheels; returns its lock and its archive.
fn build(folder: &Path, wheels: &Path) -> (PathBuf, PathBuf) {
    let (lock, inputs) = (folder.join("mine.json"), folder.join("inputs"));
    fs::create_dir(&inputs).unwrap();
    let packages = env::var_os("GUEST_IMAGE_INPUTS").filter(|path| !path.is_empty());
    let packages = packages.map(PathBuf::from);
    for source in packages.as_deref().into_iter().chain([wheels]) {
        for entry in fs::read_dir(source).unwrap().flatten() {
            symlink(entry.path(), inputs.join(entry.file_name())).unwrap();
        }
    }
    let pin = [
        "lock",
        "--wheels",
        wheels.to_str().unwrap(),
        "--out",
        lock.to_str().unwrap(),
    ];
    let make = [
        "build",
        "--lock",
        lock.to_str().unwrap(),
        "--inputs",
        inputs.to_str().unwrap(),
    ];
    let (code, _, told) = guest_image(folder, &pin);
    assert_eq!(code, Some(0), "{told}");
    let (mut code, mut built, mut told) = guest_image(folder, &make);
    if code == Some(4) {
        // The mirror no longer has a pinned package of Debian: follow the documented way out.
        let (refreshed, _, why) = guest_image(folder, &[&pin[..], &["--refresh"]].concat());
        assert_eq!(refreshed, Some(0), "{told}\n{why}");
        (code, built, told) = guest_image(folder, &make);
    }
    assert_eq!(code, Some(0), "{told}");
    let archive = PathBuf::from(built.lines().next().unwrap());
    assert!(
        archive.starts_with(folder),
        "it is kept in the cache: {built}"
    );
    (lock, archive)
}

#[test]
fn heavy_figures_come_out_of_a_container_with_matplotlib() {
    let (Some(wheels), Some(engine)) = (wheels(), EngineUnderTest::shared(Kind::Docker)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (lock, archive) = build(folder.path(), &wheels);
    let bridge = || {
        Builder::new(Some(&engine))
            .variable("MCP_BRIDGE_IMAGE_LOCK", lock.display().to_string())
            .variable("MCP_BRIDGE_IMAGE_ARCHIVE", archive.display().to_string())
    };
    let told = sdk::job(bridge(), "figures_job.py", &[]);
    assert!(told.contains(" 0 failed"), "{told}");
    let digests = guest_image::Digests::read(&lock).unwrap();
    let ran = cli::run(bridge(), &["image", "verify"], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        [digests.config, digests.manifest]
            .iter()
            .any(|digest| ran.stdout.contains(digest)),
        "the engine's image is the one that was built: {}",
        ran.stdout
    );
}
