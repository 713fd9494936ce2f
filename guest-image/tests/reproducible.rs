//! The same lock gives the same bytes in every environment, and they are the committed image.
//!
//! The inputs come from the usual sources: `GUEST_IMAGE_INPUTS`, the cache, a Debian mirror, the
//! snapshot archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use guest_image::{Architecture, Archive, Silent, committed};

/// What differs between two builds.
struct Circumstances<'a> {
    umask: &'a str,
    locale: &'a str,
    zone: &'a str,
    seed: &'a str,
    /// Part of all paths of the build.
    folder: &'a str,
}

const FIRST: Circumstances = Circumstances {
    umask: "022",
    locale: "C",
    zone: "UTC",
    seed: "1",
    folder: "a",
};
const SECOND: Circumstances = Circumstances {
    umask: "077",
    locale: "de_DE.UTF-8",
    zone: "Pacific/Kiritimati",
    seed: "random",
    folder: "another folder, with a long name and an ümlaut",
};

/// Runs `guest-image build` in a folder of its own; returns the path of the archive.
fn build(scratch: &Path, architecture: Architecture, circumstances: &Circumstances) -> PathBuf {
    let folder = scratch.join(circumstances.folder);
    let temporary = folder.join("tmp");
    fs::create_dir_all(&temporary).expect("a writable folder");
    // Only the shell can set the umask of a child; both arguments are the test's own.
    let script = format!("umask {} && exec \"$0\" \"$@\"", circumstances.umask);
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_guest-image")])
        .args(["build", "--arch", architecture.name(), "--out", "result"])
        .current_dir(&folder)
        .env("TMPDIR", &temporary)
        .env("LC_ALL", circumstances.locale)
        .env("TZ", circumstances.zone)
        .env("PYTHONHASHSEED", circumstances.seed)
        .env("PYTHONOPTIMIZE", circumstances.umask)
        .output()
        .expect("the program was built");
    assert!(output.status.success(), "{}", stderr(&output));
    let left: Vec<_> = fs::read_dir(&temporary)
        .expect("a readable folder")
        .collect();
    assert!(left.is_empty(), "the build left something behind: {left:?}");
    folder.join(format!("result/guest-base-{architecture}.tar"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_committed(path: &Path, architecture: Architecture) {
    let expected = committed("base", architecture.name()).expect("its digests are committed");
    let mut archive = Archive::open(path).expect("it was just written");
    let verified = archive
        .inspect(&expected, &Silent)
        .expect("the archive is the committed image");
    assert_eq!(verified.python, Some(architecture));
    assert_eq!(expected.archive_bytes, Some(archive.bytes()));
}

#[test]
fn two_builds_give_the_committed_image() {
    let scratch = tempfile::tempdir().unwrap();
    let first = build(scratch.path(), Architecture::Amd64, &FIRST);
    let second = build(scratch.path(), Architecture::Amd64, &SECOND);
    let (one, other) = (fs::read(&first).unwrap(), fs::read(&second).unwrap());
    let difference = one.iter().zip(&other).position(|(a, b)| a != b);
    assert!(one == other, "they differ from byte {difference:?} on");
    assert_committed(&first, Architecture::Amd64);
}

#[test]
fn build_for_another_architecture_gives_the_committed_image() {
    let scratch = tempfile::tempdir().unwrap();
    let archive = build(scratch.path(), Architecture::Arm64, &SECOND);
    assert_committed(&archive, Architecture::Arm64);
}
