//! The folder of a project's state: a separate folder in the state folder, so that nothing is written into the project.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use bridge_settings::Project;

/// The state folder, or the project's part of it.
pub(super) fn root(state: &Path, project: &Project, cwd: &Path) -> PathBuf {
    let project = match project {
        Project::Shared => return state.to_owned(),
        Project::Here => project_of(cwd),
        Project::Folder(folder) => cwd.join(folder),
    };
    state.join("projects").join(folder_name(&project))
}

/// The nearest folder with `.git` in it, or else the given one.
fn project_of(cwd: &Path) -> PathBuf {
    let found = cwd.ancestors().find(|folder| folder.join(".git").exists());
    found.unwrap_or(cwd).to_owned()
}

/// A readable and unique name: the last part of the path and a hash of the real path.
fn folder_name(project: &Path) -> String {
    let place = std::fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
    let hash = hex::encode(&digest[..6]);
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let plain = |character: char| {
        let kept = character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        if kept { character } else { '_' }
    };
    let name: String = name.chars().map(plain).take(60).collect();
    format!("{name}.{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_project_has_a_folder_of_its_own() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (one, other) = (root.path().join("a/my app"), root.path().join("b/my app"));
        for folder in [&one, &other] {
            std::fs::create_dir_all(folder.join("deep/er")).expect("made");
        }
        std::fs::create_dir(one.join(".git")).expect("made");
        assert_eq!(project_of(&one.join("deep/er")), one);
        assert_eq!(project_of(&other.join("deep")), other.join("deep"));
        let names = [folder_name(&one), folder_name(&other)];
        assert!(
            names.iter().all(|name| name.starts_with("my_app.")) && names[0] != names[1],
            "{names:?}"
        );
        std::os::unix::fs::symlink(&one, root.path().join("link")).expect("linked");
        assert_eq!(folder_name(&root.path().join("link")), names[0]);
        assert!(folder_name(Path::new("/")).starts_with('.'));
    }
}
