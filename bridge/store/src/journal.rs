//! Who wrote which project file: a line of JSON for each write, the newest last. The files themselves have no place for
//! that, so it is recorded beside them.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use serde_json::json;

use super::{Origin, Timestamp, write};

/// Below the folder of project files.
const NAME: &str = ".versions/files.jsonl";
/// A larger journal loses its older half.
const MOST_BYTES: u64 = 1 << 20;
const MODE: u32 = 0o666;

/// Records what was written (with sizes) and deleted. The caller holds the lock.
pub(super) fn note(
    folder: &Path,
    written: &[(&str, u64)],
    deleted: &[&str],
    origin: &Origin,
) -> io::Result<()> {
    if written.is_empty() && deleted.is_empty() {
        return Ok(());
    }
    let Origin { session, run } = origin;
    let time = Timestamp::now().to_string();
    let mut lines = String::new();
    let deleted = deleted.iter().map(|path| (path, "deleted", json!(true)));
    let written = written
        .iter()
        .map(|(path, size)| (path, "size", json!(size)));
    for (path, what, value) in deleted.chain(written) {
        let line = json!({"path": path, what: value, "session": session, "run": run, "time": time});
        let _ = writeln!(lines, "{line}");
    }
    let path = folder.join(NAME);
    fs::create_dir_all(path.parent().unwrap_or(folder))?;
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    file.write_all(lines.as_bytes())?;
    if file.metadata()?.len() > MOST_BYTES {
        let text = fs::read(&path)?;
        let half = &text[text.len() / 2..];
        let start = memchr::memchr(b'\n', half).map_or(0, |end| end + 1);
        write::replace(&path, &half[start..], MODE)?;
    }
    Ok(())
}
