//! Where the snapshot archive is: it keeps what mirrors drop, but no address of it is written in this program.
//!
//! apt knows it on many machines: newer versions in their own configuration (`Acquire::Snapshots`), official container
//! images in the sources themselves or in a comment beside them. Elsewhere `GUEST_IMAGE_SNAPSHOT` names it.

use std::fs;
use std::path::PathBuf;

use super::mirror::asked;

/// What every address of Debian's own archive of snapshots has before the moment.
const MARK: &str = "/archive/debian/";

/// The archive that apt's configuration or sources mention.
pub(super) fn configured() -> Option<String> {
    let settings = asked(&["apt-config", "dump", "Acquire::Snapshots"]);
    mentioned(&settings).or_else(|| {
        source_files()
            .iter()
            .find_map(|file| mentioned(&fs::read_to_string(file).ok()?))
    })
}

/// The address of the archive at a moment; `archive` may carry a moment of its own.
pub(super) fn at(archive: &str, moment: &str) -> String {
    let base = match archive.find(MARK) {
        Some(found) => &archive[..found + MARK.len()],
        None => archive,
    };
    format!("{}/{moment}", base.trim_end_matches('/'))
}

/// The first address of a snapshot archive in a text, cut before its moment.
fn mentioned(text: &str) -> Option<String> {
    text.split(|character: char| character.is_whitespace() || matches!(character, '"' | ';' | '\''))
        .filter(|word| word.starts_with("http://") || word.starts_with("https://"))
        .find_map(|word| {
            // apt writes the archive's name and the moment as placeholders or as they are.
            let word = word.replace("@PATH@", "debian");
            word.find(MARK)
                .map(|found| word[..found + MARK.len() - 1].to_owned())
        })
}

/// The files that apt reads its sources from.
fn source_files() -> Vec<PathBuf> {
    let shell = asked(&[
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
    fn finds_the_archive_where_apt_has_it() {
        let comment = "Types: deb\n# http://snap.example/archive/debian/20250520T000000Z\nURIs: http://mirror.example/debian\n";
        assert_eq!(
            mentioned(comment).as_deref(),
            Some("http://snap.example/archive/debian")
        );
        let setting = "Acquire::Snapshots::URI::Label::Debian \"https://snap.example/archive/debian/@SNAPSHOTID@/\";";
        assert_eq!(
            mentioned(setting).as_deref(),
            Some("https://snap.example/archive/debian")
        );
        assert_eq!(mentioned("deb http://mirror.example/debian sid main"), None);
        assert_eq!(
            mentioned("# http://snap.example/archive/debian-security/20250520T000000Z"),
            None
        );
    }

    #[test]
    fn takes_the_archive_with_or_without_a_moment() {
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
