//! The guest's start without an engine: the image's Python in the image's root file system, by
//! chroot. An engine makes the container's process long before Python is executed, so the guest's
//! own age in a container would include the engine's work.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Measured on both sides.
const ENTER: &str = "mount -t proc proc proc; mount --bind /dev dev; exec chroot . \"$@\"";

/// The unpacked layers of the image.
pub(crate) struct Rootfs(TempDir);

impl Rootfs {
    /// `None` if this user may not change the root folder.
    pub(crate) fn unpack(archive: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let outer = TempDir::new().expect("a temporary folder can be made");
        let root = TempDir::new().expect("a temporary folder can be made");
        unpack(archive, outer.path());
        let manifest =
            std::fs::read(outer.path().join("manifest.json")).expect("the archive has a manifest");
        let manifest: Value = serde_json::from_slice(&manifest).expect("the manifest is JSON");
        for layer in manifest[0]["Layers"]
            .as_array()
            .expect("the manifest lists layers")
        {
            unpack(
                &outer
                    .path()
                    .join(layer.as_str().expect("a layer is a path")),
                root.path(),
            );
        }
        Some(Self(root))
    }

    /// Time from spawning the entrypoint to its `ready` frame.
    pub(crate) fn ready(&self) -> Duration {
        self.first_line(&["/opt/guest/entry.py"], "{\"type\":\"ready\"")
    }

    /// Time from spawning a bare Python to its first output.
    pub(crate) fn bare(&self) -> Duration {
        self.first_line(&["-c", "print(1)"], "1")
    }

    fn first_line(&self, arguments: &[&str], start: &str) -> Duration {
        let begun = Instant::now();
        let mut child = Command::new("unshare")
            .args([
                "--mount",
                "sh",
                "-euc",
                ENTER,
                "sh",
                "/usr/bin/python3.14",
                "-I",
                "-S",
            ])
            .args(arguments)
            .current_dir(self.0.path())
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the image's Python can be started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its standard output is a pipe"))
            .read_line(&mut line)
            .expect("it writes a line");
        let elapsed = begun.elapsed();
        assert!(line.starts_with(start), "not its first line: {line:?}");
        drop(child.stdin.take());
        let _ = child.kill();
        child.wait().expect("a child can be waited for");
        elapsed
    }
}

fn unpack(archive: &Path, to: &Path) {
    tar::Archive::new(std::fs::File::open(archive).expect("the archive can be opened"))
        .unpack(to)
        .expect("the archive can be unpacked");
}
