//! Finding programs: the one search of `PATH` for everything that the bridge starts or is asked to
//! start.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// `NixOS` keeps its setuid programs here (`newuidmap`, `sudo`).
const WRAPPERS: &str = "run/wrappers/bin";

/// The file that is executed for `name`: a path is taken relative to `base`, a plain name is looked
/// up in the folders of `search_path`.
pub fn find(name: &str, search_path: &OsStr, base: &Path) -> Option<PathBuf> {
    find_below(Path::new("/"), name, search_path, base)
}

/// Like [`find`], on a host whose files lie below `root`.
pub(super) fn find_below(
    root: &Path,
    name: &str,
    search_path: &OsStr,
    base: &Path,
) -> Option<PathBuf> {
    if name.is_empty() || name.contains('\0') {
        return None;
    }
    if name.contains('/') {
        return Some(base.join(name)).filter(|path| is_executable(path));
    }
    folders(root, search_path)
        .into_iter()
        .map(|folder| base.join(folder).join(name))
        .find(|path| is_executable(path))
}

/// The folders of a search path, with the one for setuid programs in front where the host has it.
pub(super) fn folders(root: &Path, search_path: &OsStr) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::split_paths(search_path)
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    let wrappers = root.join(WRAPPERS);
    if wrappers.is_dir() && !folders.contains(&wrappers) {
        folders.insert(0, wrappers);
    }
    folders
}

/// Whether `path` is a file that somebody may execute.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, "").expect("a writable folder");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own file");
    }

    #[test]
    fn first_executable_file_on_the_search_path_is_found() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        file(&root.join("a/tool"), 0o644);
        file(&root.join("b/tool"), 0o755);
        fs::create_dir_all(root.join("c/tool")).expect("a folder");
        let found = |name| find_below(root, name, OsStr::new("c::a:b"), root);
        assert_eq!(found("tool"), Some(root.join("b/tool")));
        assert_eq!(found("b/tool"), Some(root.join("b/tool")));
        assert_eq!(found("a/tool"), None, "it may not be executed");
        assert_eq!(found("other"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn setuid_wrappers_come_first() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        file(&root.join("a/newuidmap"), 0o755);
        let search_path = root.join("a");
        let found = || find_below(root, "newuidmap", search_path.as_os_str(), root);
        assert_eq!(found(), Some(root.join("a/newuidmap")));
        file(&root.join("run/wrappers/bin/newuidmap"), 0o755);
        assert_eq!(found(), Some(root.join("run/wrappers/bin/newuidmap")));
    }
}
