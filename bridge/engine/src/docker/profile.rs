//! The seccomp profile as a file, for podman, which takes it by path on its own machine.
//!
//! The file is named by its content and shared by all bridges of a user, so that nothing has to be
//! cleaned up and no bridge can change it under another. It is not secret: a podman of another user
//! must be able to read it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use bridge_common::error::io_reason as reason;
use bridge_common::host::HostEnv;

/// Folders in which podman may find the file, best first. Not all are visible to podman where it or
/// the bridge has a private `/tmp`, or where it runs in a virtual machine that shares only some
/// folders.
pub(super) fn places(host: &HostEnv) -> Vec<PathBuf> {
    let mut places = vec![
        host.temporary()
            .join(format!("mcp-code-bridge-{}", host.uid())),
    ];
    if let Some(home) = host.home() {
        places.push(home.join(".cache/mcp-code-bridge"));
    }
    if let Some(folder) = host.runtime_dir().folder {
        places.push(folder.join("mcp-code-bridge"));
    }
    places
}

/// Makes sure that the profile lies in a folder that only this user can write; returns its path.
pub(super) fn ensure(folder: &Path, uid: u32, text: &str) -> Result<PathBuf, String> {
    let hash = hex::encode(Sha256::digest(text.as_bytes()));
    let file = folder.join(format!("seccomp-{}.json", &hash[..16]));
    own(folder, uid)?;
    if fs::read(&file).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(file);
    }
    write(folder, &file, text)
        .map_err(|error| format!("{}: {}", file.display(), reason(&error)))?;
    Ok(file)
}

/// Makes a folder that only this user can write to. In a shared `/tmp` somebody else may have made
/// it first.
fn own(folder: &Path, uid: u32) -> Result<(), String> {
    let named = |problem: &str| format!("{}: {problem}", folder.display());
    match fs::create_dir_all(folder) {
        Ok(()) => {}
        Err(error) => return Err(named(&reason(&error))),
    }
    let facts = fs::symlink_metadata(folder).map_err(|error| named(&reason(&error)))?;
    if !facts.is_dir() || facts.uid() != uid {
        return Err(named("not a folder of this user"));
    }
    if facts.mode() & 0o777 != 0o755 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
            .map_err(|error| named(&reason(&error)))?;
    }
    Ok(())
}

fn write(folder: &Path, file: &Path, text: &str) -> std::io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.as_file()
        .set_permissions(fs::Permissions::from_mode(0o444))?;
    new.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_is_written_once_and_restored_when_changed() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("place");
        let uid = rustix::process::getuid().as_raw();
        let file = ensure(&folder, uid, "text").expect("made");
        assert_eq!(fs::read_to_string(&file).expect("readable"), "text");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o444);
        fs::remove_file(&file).expect("removed");
        fs::write(&file, "changed").expect("written");
        assert_eq!(ensure(&folder, uid, "text"), Ok(file.clone()));
        assert_eq!(fs::read_to_string(&file).expect("readable"), "text");
    }

    #[test]
    fn folder_of_another_user_is_not_used() {
        let root = tempfile::tempdir().expect("a folder");
        let uid = rustix::process::getuid().as_raw();
        let problem = ensure(root.path(), uid + 1, "text").expect_err("not ours");
        assert!(problem.ends_with("not a folder of this user"), "{problem}");
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).expect("linked");
        assert!(
            ensure(&link, uid, "text").is_err(),
            "a link may lead anywhere"
        );
    }
}
