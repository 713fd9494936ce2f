//! Lists the files of the guest's runtime; also a module of the build script.

use std::path::Path;
use std::{fs, io};

/// The relative paths of all files `*.py` and `py.typed` below `folder`, sorted; none if there is
/// no such folder. Caches and other files never reach the image.
pub(crate) fn python_files(folder: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    if folder.is_dir() {
        collect(folder, "", &mut found)?;
    }
    found.sort();
    Ok(found)
}

/// Case-sensitive, as Python is.
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
