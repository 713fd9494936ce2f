//! Adds the files that no package has and an installed system makes for itself: users, links, mount
//! points and the bundle of CA certificates.

use crate::tree::{Error, Node, Tree};

/// Configuration that libc and Python read.
const FILES: [(&str, &str); 6] = [
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/hostname", "guest\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\nnetworks: files\nservices: files\nprotocols: files\nrpc: files\nethers: files\n",
    ),
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/nonexistent\nnobody:x:65534:65534:nobody:/workspace:/nonexistent\n",
    ),
    ("etc/resolv.conf", ""),
];

/// The merged layout, links that engines add if they are missing, OpenSSL's paths of CA certificates,
/// and the names by which programs start an interpreter.
const LINKS: [(&str, &str); 8] = [
    ("bin", "usr/bin"),
    ("etc/localtime", "/usr/share/zoneinfo/UTC"),
    ("etc/mtab", "/proc/mounts"),
    ("lib", "usr/lib"),
    ("usr/bin/python", "python3.14"),
    ("usr/bin/python3", "python3.14"),
    ("usr/lib/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt"),
    ("usr/lib/ssl/certs", "/etc/ssl/certs"),
];

/// Mount points, and folders that a guest may write to, which are tmpfs at run time.
const FOLDERS: [(&str, u32); 10] = [
    ("dev", 0o755),
    ("opt/guest", 0o755),
    ("proc", 0o755),
    ("projects", 0o1777),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("var/tmp", 0o1777),
    ("workspace", 0o1777),
];

const ZONES: &str = "usr/share/zoneinfo";
/// The sources of the time zones, which name the links.
const ZONE_SOURCES: &str = "usr/share/zoneinfo/tzdata.zi";

const CA_FOLDER: &str = "usr/share/ca-certificates";
const CA_BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// Adds the system files to the merged packages.
pub(super) fn complete(tree: &mut Tree) -> Result<(), Error> {
    let bundle = ca_bundle(tree);
    tree.retain(|path| !path.is_within(CA_FOLDER));
    tree.put(CA_BUNDLE, Node::file(bundle))?;
    for (path, text) in FILES {
        tree.put(path, Node::file(text.as_bytes()))?;
    }
    for (path, target) in LINKS {
        tree.put(
            path,
            Node::Link {
                target: target.to_owned(),
            },
        )?;
    }
    add_old_zones(tree)?;
    if tree.get("usr/lib64").is_some() {
        tree.put(
            "lib64",
            Node::Link {
                target: "usr/lib64".to_owned(),
            },
        )?;
    }
    for (path, mode) in FOLDERS {
        tree.put(path, Node::Directory { mode })?;
    }
    Ok(())
}

/// Adds links for the time zones' earlier names, such as `US/Eastern`, which Debian has in a package
/// of their own; removes the sources.
fn add_old_zones(tree: &mut Tree) -> Result<(), Error> {
    let sources = tree.file(ZONE_SOURCES).map(|data| data.to_vec());
    tree.retain(|path| !path.is_within(ZONE_SOURCES));
    for line in String::from_utf8_lossy(&sources.unwrap_or_default()).lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some("L"), Some(zone), Some(old)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let path = format!("{ZONES}/{old}");
        if tree.get(&path).is_none() && tree.get(&format!("{ZONES}/{zone}")).is_some() {
            let target = format!("{}{zone}", "../".repeat(old.matches('/').count()));
            tree.put(&path, Node::Link { target })?;
        }
    }
    Ok(())
}

/// All CA certificates in one file, sorted by path.
fn ca_bundle(tree: &Tree) -> Vec<u8> {
    let mut bundle = Vec::new();
    for (path, data) in tree.files() {
        if path.is_within(CA_FOLDER) && path.extension() == "crt" {
            bundle.extend_from_slice(data);
            if !bundle.ends_with(b"\n") {
                bundle.push(b'\n');
            }
        }
    }
    bundle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files_are_added() {
        let mut tree = Tree::default();
        tree.put("usr/share/ca-certificates/b.crt", Node::file(*b"B"))
            .expect("new");
        tree.put("usr/share/ca-certificates/a.crt", Node::file(*b"A\n"))
            .expect("new");
        complete(&mut tree).expect("an almost empty tree");
        assert_eq!(
            tree.file(CA_BUNDLE).map(|data| data.to_vec()),
            Some(b"A\nB\n".to_vec())
        );
        assert_eq!(tree.get(CA_FOLDER), None);
        assert_eq!(
            tree.get("workspace"),
            Some(&Node::Directory { mode: 0o1777 })
        );
        assert_eq!(tree.get("lib64"), None, "only if the loader is in it");
    }

    #[test]
    fn old_names_of_time_zones_are_links() {
        let mut tree = Tree::default();
        for (path, text) in [
            ("America/New_York", "zone"),
            ("UTC", "zone"),
            (
                "tzdata.zi",
                "# version\nR A 1 o - Jan 1 0 0 -\nL America/New_York US/Eastern\nL America/New_York EST5EDT\n\
                 L America/Nowhere US/None\nL Etc/UTC UTC\n",
            ),
        ] {
            tree.put(&format!("{ZONES}/{path}"), Node::file(text.as_bytes()))
                .expect("new");
        }
        complete(&mut tree).expect("an almost empty tree");
        let link = |target: &str| {
            Some(Node::Link {
                target: target.to_owned(),
            })
        };
        let zone = |name: &str| tree.get(&format!("{ZONES}/{name}")).cloned();
        assert_eq!(zone("US/Eastern"), link("../America/New_York"));
        assert_eq!(zone("EST5EDT"), link("America/New_York"));
        assert_eq!(zone("US/None"), None);
        assert_eq!(zone("UTC"), Some(Node::file(*b"zone")));
        assert_eq!(zone("tzdata.zi"), None);
    }
}
