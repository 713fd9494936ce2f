//! Reads Debian's package index: paragraphs of lines `Name: value`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Error;
use crate::lock::{Input, MIRROR};

const MAX_LINE_BYTES: u64 = 1 << 20;

/// Finds the packages with these names, each in its newest version.
pub(super) fn find(
    index: &Path,
    wanted: &BTreeSet<String>,
) -> Result<BTreeMap<String, Input>, Error> {
    let file = File::open(index).map_err(|source| Error::Scratch {
        path: index.to_owned(),
        source,
    })?;
    find_in(BufReader::new(file), wanted, &is_newer)
}

fn find_in(
    mut index: impl BufRead,
    wanted: &BTreeSet<String>,
    newer: &dyn Fn(&str, &str) -> bool,
) -> Result<BTreeMap<String, Input>, Error> {
    let mut found: BTreeMap<String, Input> = BTreeMap::new();
    let mut stanza = BTreeMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = index
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line);
        let read = read.map_err(|error| Error::Index(error.to_string()))?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() {
            let complete = std::mem::take(&mut stanza);
            if complete
                .get("Package")
                .is_some_and(|name| wanted.contains(name))
            {
                let input = input(&complete)?;
                let better = |old: &Input| newer(input.version(), old.version());
                if found.get(input.name()).is_none_or(better) {
                    found.insert(input.name().to_owned(), input);
                }
            }
        } else if let Some((name, value)) = text.split_once(": ")
            && matches!(
                name,
                "Package" | "Version" | "Architecture" | "Filename" | "Size" | "SHA256"
            )
        {
            stanza.insert(name.to_owned(), value.to_owned());
        }
        if read == 0 {
            return Ok(found);
        }
    }
}

fn input(stanza: &BTreeMap<String, String>) -> Result<Input, Error> {
    let field = |name: &str| {
        let package = stanza.get("Package").map_or("", String::as_str);
        stanza
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Index(format!("{package} has no {name}")))
    };
    Ok(Input::Deb {
        name: field("Package")?,
        version: field("Version")?,
        architecture: field("Architecture")?,
        sha256: field("SHA256")?,
        size: field("Size")?
            .parse()
            .map_err(|_| Error::Index("a size is not a number".to_owned()))?,
        url: format!("{MIRROR}{}", field("Filename")?),
    })
}

/// Compares versions by running dpkg, which is rarely needed: most packages have one version only.
fn is_newer(one: &str, other: &str) -> bool {
    Command::new("dpkg")
        .args(["--compare-versions", one, "gt", other])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZA: &str = "Package: thing\nVersion: 1-1\nArchitecture: all\nDescription: Version: 9\n continued: yes\n\
        Filename: pool/main/t/thing/thing_1-1_all.deb\nSize: 7\nSHA256: 00\n";

    fn look(index: &str) -> Result<BTreeMap<String, Input>, Error> {
        let wanted = BTreeSet::from(["thing".to_owned()]);
        find_in(index.as_bytes(), &wanted, &|one, other| one > other)
    }

    #[test]
    fn newest_version_of_each_wanted_package_is_found() {
        let other = STANZA.replace("thing", "other");
        let newer = STANZA.replace("1-1", "1-2");
        for index in [
            format!("{other}\n{STANZA}\n{newer}"),
            format!("{newer}\n\n{STANZA}\n{other}\n"),
        ] {
            let found = look(&index).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(found["thing"].version(), "1-2");
            assert_eq!(found["thing"].file_name(), "thing_1-2_all.deb");
        }
    }

    #[test]
    fn package_without_a_required_field_is_an_error() {
        assert!(look(&STANZA.replace("SHA256", "MD5sum")).is_err());
        assert!(look(&STANZA.replace("Size: 7", "Size: many")).is_err());
        assert!(look("").unwrap().is_empty());
    }
}
