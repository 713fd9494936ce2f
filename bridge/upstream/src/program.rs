//! Finds a server's program; where it is not on `PATH`, says where it is and what to write.
//!
//! Programs that graphical clients start have a bare `PATH`, so `npx` is missing although the user
//! has it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bridge_common::programs;

/// Why a server's program cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The name is not in any folder of `PATH`.
    #[error("{}", not_on_path(.command, .path, .elsewhere.as_deref(), *.toml))]
    NotOnPath {
        /// The name of the program.
        command: String,
        /// The `PATH` that was searched.
        path: String,
        /// The place where the program is instead.
        elsewhere: Option<PathBuf>,
        /// The definition is in a TOML file.
        toml: bool,
    },
    /// The path does not lead to a file.
    #[error("{} does not exist", .0.display())]
    NoSuchFile(PathBuf),
    /// The path leads to something that is not executable.
    #[error("{} is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// The working directory does not exist.
    #[error("its working directory {} does not exist", .0.display())]
    NoSuchDirectory(PathBuf),
}

fn not_on_path(command: &str, path: &str, elsewhere: Option<&Path>, toml: bool) -> String {
    let searched = if path.is_empty() {
        "PATH is empty".to_owned()
    } else {
        format!("searched PATH: {path}")
    };
    let Some(found) = elsewhere else {
        return format!(
            "program \"{command}\" was not found ({searched}); install it, or give its full path as \"command\""
        );
    };
    let folder = found.parent().unwrap_or(found).display();
    // The folder and not only the program's path: programs there (npx) start their neighbours
    // (node) by name.
    let extended = if path.is_empty() {
        folder.to_string()
    } else {
        format!("{folder}:{path}")
    };
    let line = if toml {
        format!("env = {{ PATH = {extended:?} }}")
    } else {
        format!("\"env\": {{ \"PATH\": {extended:?} }}")
    };
    format!(
        "program \"{command}\" was not found ({searched}); it is at {}; add to its definition: {line}",
        found.display()
    )
}

/// The file to execute for `command`, as a server with this environment and working directory finds
/// it.
pub(super) fn find(
    command: &str,
    environment: &BTreeMap<String, String>,
    cwd: &Path,
    toml: bool,
) -> Result<PathBuf, Missing> {
    if !cwd.is_dir() {
        return Err(Missing::NoSuchDirectory(cwd.to_owned()));
    }
    if command.contains('/') {
        let path = cwd.join(command);
        return match (programs::is_executable(&path), path.exists()) {
            (true, _) => Ok(path),
            (false, true) => Err(Missing::NotExecutable(path)),
            (false, false) => Err(Missing::NoSuchFile(path)),
        };
    }
    let path = environment.get("PATH").map_or("", String::as_str);
    if let Some(found) = programs::find(command, path.as_ref(), cwd) {
        return Ok(found);
    }
    let elsewhere = other_folders(environment)
        .into_iter()
        .map(|folder| folder.join(command))
        .find(|path| programs::is_executable(path));
    Err(Missing::NotOnPath {
        command: command.to_owned(),
        path: path.to_owned(),
        elsewhere,
        toml,
    })
}

/// Where version managers and package managers put programs. `*` stands for one name; where several
/// fit, the last in order counts, which is mostly the newest.
fn other_folders(environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    const IN_HOME: [&str; 22] = [
        ".nvm/versions/node/*/bin",
        ".local/share/fnm/node-versions/*/installation/bin",
        ".volta/bin",
        ".local/share/mise/shims",
        ".asdf/shims",
        ".local/bin",
        ".cargo/bin",
        ".bun/bin",
        ".deno/bin",
        ".npm-global/bin",
        ".local/share/pnpm",
        ".yarn/bin",
        ".nix-profile/bin",
        ".local/state/nix/profile/bin",
        ".local/state/nix/profiles/profile/bin",
        ".pyenv/shims",
        ".rye/shims",
        ".local/share/uv/tools/*/bin",
        "go/bin",
        ".dotnet/tools",
        "bin",
        ".orbstack/bin",
    ];
    const IN_SYSTEM: [&str; 9] = [
        "run/current-system/sw/bin",
        "nix/var/nix/profiles/default/bin",
        "opt/homebrew/bin",
        "usr/local/bin",
        "home/linuxbrew/.linuxbrew/bin",
        "snap/bin",
        "usr/bin",
        "bin",
        "opt/local/bin",
    ];
    let root = Path::new("/");
    let mut folders = Vec::new();
    if let Some(home) = environment.get("HOME").filter(|home| !home.is_empty()) {
        for pattern in IN_HOME {
            expand(Path::new(home), pattern, &mut folders);
        }
    }
    if let Some(user) = environment.get("USER").filter(|user| !user.contains('/')) {
        folders.push(root.join("etc/profiles/per-user").join(user).join("bin"));
    }
    for pattern in IN_SYSTEM {
        expand(root, pattern, &mut folders);
    }
    folders
}

fn expand(base: &Path, pattern: &str, folders: &mut Vec<PathBuf>) {
    let Some((before, after)) = pattern.split_once("/*/") else {
        folders.push(base.join(pattern));
        return;
    };
    let Ok(entries) = fs::read_dir(base.join(before)) else {
        return;
    };
    let mut versions: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .take(1000)
        .collect();
    versions.sort_by_cached_key(|path| std::cmp::Reverse(version_key(path)));
    folders.extend(versions.into_iter().map(|version| version.join(after)));
}

/// `v9.0` sorts before `v10.0`.
fn version_key(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|character: char| !character.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(folder: &Path, name: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn environment(home: &Path, path: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("HOME".to_owned(), home.display().to_string()),
            ("PATH".to_owned(), path.to_owned()),
        ])
    }

    #[test]
    fn a_program_on_the_path_is_found_first_folder_first() {
        let home = tempfile::tempdir().unwrap();
        let first = program(&home.path().join("a"), "tool-x");
        program(&home.path().join("b"), "tool-x");
        let path = format!("/nowhere::{0}/a:{0}/b", home.path().display());
        assert_eq!(
            find(
                "tool-x",
                &environment(home.path(), &path),
                home.path(),
                false
            ),
            Ok(first)
        );
    }

    #[test]
    fn a_program_elsewhere_comes_with_the_line_to_write() {
        let home = tempfile::tempdir().unwrap();
        program(&home.path().join(".nvm/versions/node/v9.1.0/bin"), "npx-x");
        let newest = program(&home.path().join(".nvm/versions/node/v22.3.0/bin"), "npx-x");
        let missing = find(
            "npx-x",
            &environment(home.path(), "/nowhere"),
            home.path(),
            false,
        )
        .unwrap_err();
        let text = missing.to_string();
        assert!(
            text.starts_with(
                "program \"npx-x\" was not found (searched PATH: /nowhere); it is at "
            ),
            "{text}"
        );
        let folder = newest.parent().unwrap().display();
        assert!(
            text.ends_with(&format!("\"env\": {{ \"PATH\": \"{folder}:/nowhere\" }}")),
            "{text}"
        );
        let missing = find(
            "npx-x",
            &environment(home.path(), "/nowhere"),
            home.path(),
            true,
        )
        .unwrap_err();
        assert!(
            missing
                .to_string()
                .ends_with(&format!("env = {{ PATH = \"{folder}:/nowhere\" }}")),
            "{missing}"
        );
    }

    #[test]
    fn what_is_nowhere_is_said_plainly() {
        let home = tempfile::tempdir().unwrap();
        let find = |command: &str| {
            find(
                command,
                &environment(home.path(), "/nowhere"),
                home.path(),
                false,
            )
            .unwrap_err()
        };
        assert_eq!(
            find("no-such-program").to_string(),
            "program \"no-such-program\" was not found (searched PATH: /nowhere); install it, or give its full path as \"command\""
        );
        assert_eq!(find("./x"), Missing::NoSuchFile(home.path().join("./x")));
        fs::write(home.path().join("x"), "").unwrap();
        assert_eq!(find("./x"), Missing::NotExecutable(home.path().join("./x")));
        assert_eq!(
            super::find("x", &BTreeMap::new(), &home.path().join("gone"), false),
            Err(Missing::NoSuchDirectory(home.path().join("gone")))
        );
    }
}
