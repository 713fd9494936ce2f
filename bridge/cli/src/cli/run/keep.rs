//! `run --out DIR`: saves what the code displayed and the files it left. The names come from the
//! sandbox, so existing files are never overwritten and hidden files never made.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bridge_render::visible;
use bridge_session::{Displays, OutFile, Sessions};

/// Saves everything; each returned line says where a file is, or why it was not saved.
pub(super) async fn save(
    folder: &Path,
    displays: &Displays,
    files: &[OutFile],
    (sessions, session): (&Sessions, &str),
) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, display) in displays.shown.iter().enumerate() {
        let name = format!("display-{}.{}", index + 1, ending(display.mime));
        lines.push(write(folder, &name, display.content.as_bytes()));
    }
    for file in files {
        lines.push(match sessions.read_file(session, &file.path).await {
            Ok(content) => write(folder, &file.path, &content),
            Err(error) => error.to_string(),
        });
    }
    lines
}

fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let shown = visible(name);
    match create(folder, name).and_then(|(path, mut file)| {
        file.write_all(content)?;
        Ok(path)
    }) {
        Ok(path) => format!("saved {}", visible(&path.display().to_string())),
        Err(error) => format!("cannot save {shown}: {error}"),
    }
}

/// Creates a new file. `name` is relative; one with a hidden part, or `..`, is an error.
fn create(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    if name.split('/').any(|part| part.starts_with('.')) {
        return Err(io::Error::other("hidden files are not saved"));
    }
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = File::create_new(&path)?;
    Ok((path, file))
}

fn ending(mime: &str) -> &'static str {
    match mime {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "text/html" => "html",
        "text/markdown" => "md",
        "application/json" => "json",
        _ => "txt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_files_are_not_overwritten_and_hidden_ones_not_made() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("new");
        assert!(write(&path, "sub/a.txt", b"1").starts_with("saved "));
        assert_eq!(fs::read(path.join("sub/a.txt")).expect("written"), b"1");
        assert!(write(&path, "sub/a.txt", b"2").contains("cannot save sub/a.txt"));
        assert_eq!(fs::read(path.join("sub/a.txt")).expect("there"), b"1");
        for name in [".bashrc", "sub/.hidden/x", "../x", "sub/../../x"] {
            assert!(
                write(&path, name, b"").contains(": hidden files are not saved"),
                "{name}"
            );
        }
    }
}
