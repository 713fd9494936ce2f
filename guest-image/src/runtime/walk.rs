//! Which files of a folder belong to the guest's runtime. Shared with the build script.

use std::path::Path;
use std::{fs, io};

/// Relative paths of all Python files below `folder`, sorted; none where the folder is absent.
///
/// Only `*.py` and `py.typed` belong to the image; caches and editors' files never reach it.
pub(crate) fn python_files(folder: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    if folder.is_dir() {
        collect(folder, "", &mut found)?;
    }
    found.sort();
    Ok(found)
}

/// Case matters to Python, so it matters here.
fn is_python(path: &str) -> bool {
    let extension = Path::new(path).extension().unwrap_or_default();
    extension == "py" || path.ends_with("/py.typed")
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        let relative = format!("{prefix}{name}");
        if kind.is_dir() && name != "__pycache__" && !name.starts_with('.') {
            collect(&entry.path(), &format!("{relative}/"), found)?;
        } else if kind.is_file() && is_python(&relative) {
            found.push(relative);
        }
    }
    Ok(())
}
