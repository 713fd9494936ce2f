//! Embeds the locks, their digests and the guest's runtime.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[path = "src/runtime/walk.rs"]
mod walk;

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for watched in ["build.rs", "src/runtime/walk.rs", "lock", "runtime"] {
        println!("cargo::rerun-if-changed={watched}");
    }

    let mut runtime = String::from("&[\n");
    for file in walk::python_files(&root.join("runtime"))? {
        let source = root.join("runtime").join(&file).display().to_string();
        let _ = writeln!(runtime, "    ({file:?}, include_bytes!({source:?})),");
    }
    runtime.push_str("]\n");
    write_if_changed(&out.join("runtime_files.rs"), &runtime)?;

    let mut locks = String::from("&[\n");
    for name in names(&root.join("lock"))? {
        let path = root.join("lock").join(&name).display().to_string();
        let _ = writeln!(locks, "    ({name:?}, include_str!({path:?})),");
    }
    locks.push_str("]\n");
    write_if_changed(&out.join("lock_files.rs"), &locks)
}

/// The names of the JSON files in `folder`, sorted.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Path::new(&name)
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Keeps the modification time of an unchanged file, so that nothing is rebuilt for it.
fn write_if_changed(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    fs::write(path, text)
}
