//! The check of the state folder (T0).

use std::path::Path;

use super::{Check, Outcome};
use bridge_settings::Settings;
use bridge_store::Store;

const WRITABLE: &str = "a writable folder";

pub(super) fn examine(settings: &Settings) -> Check {
    let cwd = settings.host.cwd().unwrap_or(Path::new(""));
    let check = of_folder(&settings.state_dir);
    if check.outcome != Outcome::Ok {
        return check;
    }
    let store = Store::of(settings, cwd);
    match (store.memory().peek(), store.tools().list()) {
        (Ok((memory, unread)), Ok((tools, problems))) => {
            let found = format!(
                "{}, {} memories, {} saved tools",
                check.found,
                memory.memories.len(),
                tools.len()
            );
            let bad = [memory.set_aside, unread, problems].concat();
            let check = Check { found, ..check };
            if bad.is_empty() {
                return check;
            }
            check.but(
                Outcome::Warn,
                format!("these could not be read: {}", bad.join("; ")),
            )
        }
        (Err(error), _) | (_, Err(error)) => check.but(Outcome::Warn, error.to_string()),
    }
}

fn of_folder(folder: &Path) -> Check {
    let shown = folder.display();
    let check = |found: String| Check::ok("state", "T0", found, WRITABLE);
    match std::fs::metadata(folder) {
        Ok(facts) if !facts.is_dir() => check(format!("{shown} is not a folder")).but(
            Outcome::Fail,
            "move it away, or set MCP_BRIDGE_STATE_DIR to another folder",
        ),
        Ok(_) => match probe(folder) {
            Ok(()) => check(shown.to_string()),
            Err(error) => check(format!("{shown} is not writable: {error}")).but(
                Outcome::Fail,
                format!("make it yours: chown \"$(id -u)\" {shown} && chmod u+rwx {shown}"),
            ),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match first_existing(folder) {
                Some(parent) if probe(parent).is_ok() => {
                    check(format!("{shown} does not exist yet"))
                }
                _ => check(format!("{shown} does not exist and cannot be created")).but(
                    Outcome::Fail,
                    format!(
                        "create it: mkdir -p {shown}, or set MCP_BRIDGE_STATE_DIR to another folder"
                    ),
                ),
            }
        }
        Err(error) => check(format!("cannot look at {shown}: {error}")).but(
            Outcome::Fail,
            "correct its permissions, or set MCP_BRIDGE_STATE_DIR to another folder",
        ),
    }
}

fn first_existing(folder: &Path) -> Option<&Path> {
    folder.ancestors().skip(1).find(|parent| parent.is_dir())
}

/// Writes a file and removes it: permissions say nothing of read-only mounts, quotas and full
/// disks.
fn probe(folder: &Path) -> std::io::Result<()> {
    tempfile::Builder::new()
        .prefix(".mcp-code-bridge-probe")
        .tempfile_in(folder)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_every_kind() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let file = root.path().join("file");
        std::fs::write(&file, "").expect("written");
        assert_eq!(of_folder(root.path()).outcome, Outcome::Ok);
        assert_eq!(of_folder(&root.path().join("a/b")).outcome, Outcome::Ok);
        assert_eq!(of_folder(&file).outcome, Outcome::Fail);
        assert_eq!(of_folder(&file.join("below")).outcome, Outcome::Fail);
        assert_eq!(of_folder(Path::new("/proc/state")).outcome, Outcome::Fail);
        assert_eq!(
            std::fs::read_dir(root.path()).expect("read").count(),
            1,
            "the probe is gone"
        );
    }
}
