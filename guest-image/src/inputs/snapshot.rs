//! The snapshot archive of this machine, which keeps what mirrors drop, from apt's configuration.
//!
//! Newer versions of apt have it in `Acquire::Snapshots`, official container images in the sources
//! or in a comment beside them. Elsewhere `GUEST_IMAGE_SNAPSHOT` names one.

use std::fs;
use std::path::PathBuf;

use super::mirror::command_output;

/// What stands before the time in the URL of every snapshot archive of Debian.
const ARCHIVE_PATH: &str = "/archive/debian/";

/// The URL in apt's configuration or sources.
pub(super) fn configured() -> Option<String> {
    let settings = command_output(&["apt-config", "dump", "Acquire::Snapshots"]);
    find_archive(&settings).or_else(|| {
        source_files()
            .iter()
            .find_map(|file| find_archive(&fs::read_to_string(file).ok()?))
    })
}

/// The URL of the archive at a time; `archive` may already end with another time.
pub(super) fn at(archive: &str, time: &str) -> String {
    let base = match archive.find(ARCHIVE_PATH) {
        Some(found) => &archive[..found + ARCHIVE_PATH.len()],
        None => archive,
    };
    format!("{}/{time}", base.trim_end_matches('/'))
}

/// The first URL of a snapshot archive in a text, without its time.
fn find_archive(text: &str) -> Option<String> {
    text.split(|character: char| character.is_whitespace() || matches!(character, '"' | ';' | '\''))
        .filter(|word| word.starts_with("http://") || word.starts_with("https://"))
        .find_map(|word| {
            // apt may write the name of the archive as a placeholder.
            let word = word.replace("@PATH@", "debian");
            word.find(ARCHIVE_PATH)
                .map(|found| word[..found + ARCHIVE_PATH.len() - 1].to_owned())
        })
}

/// The files with apt's sources.
fn source_files() -> Vec<PathBuf> {
    let shell = command_output(&[
        "apt-config",
        "shell",
        "LIST",
        "Dir::Etc::sourcelist/f",
        "PARTS",
        "Dir::Etc::sourceparts/d",
    ]);
    let mut files = Vec::new();
    for line in shell.lines() {
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let path = PathBuf::from(value.trim_matches('\''));
        if name == "LIST" {
            files.push(path);
        } else if let Ok(entries) = fs::read_dir(path) {
            files.extend(entries.flatten().map(|entry| entry.path()));
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_is_found_in_apts_configuration() {
        let comment = "Types: deb\n# http://snap.example/archive/debian/20250520T000000Z\nURIs: http://mirror.example/debian\n";
        assert_eq!(
            find_archive(comment).as_deref(),
            Some("http://snap.example/archive/debian")
        );
        let setting = "Acquire::Snapshots::URI::Label::Debian \"https://snap.example/archive/debian/@SNAPSHOTID@/\";";
        assert_eq!(
            find_archive(setting).as_deref(),
            Some("https://snap.example/archive/debian")
        );
        assert_eq!(
            find_archive("deb http://mirror.example/debian sid main"),
            None
        );
        assert_eq!(
            find_archive("# http://snap.example/archive/debian-security/20250520T000000Z"),
            None
        );
    }

    #[test]
    fn time_in_the_url_of_the_archive_is_replaced() {
        for archive in [
            "http://a/archive/debian",
            "http://a/archive/debian/",
            "http://a/archive/debian/20200101T000000Z/",
        ] {
            assert_eq!(
                at(archive, "20261129T000000Z"),
                "http://a/archive/debian/20261129T000000Z"
            );
        }
    }
}
