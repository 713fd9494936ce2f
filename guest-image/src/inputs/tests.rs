//! Inputs from all sources.

use super::server::{Server, answer, serve};
use super::*;
use crate::progress::Silent;
use crate::sha256;

const SNAPSHOT: &str = "20261030T200801Z";

fn data(name: &str) -> Vec<u8> {
    format!("the package {name}").into_bytes()
}

/// A lock with the output of `data` in place of packages.
fn lock(names: &[&str]) -> Lock {
    let inputs: Vec<_> = names
        .iter()
        .map(|name| {
            serde_json::json!({
                "kind": "deb", "name": name, "version": "1", "architecture": "amd64",
                "sha256": sha256::hex_digest(&data(name)), "size": data(name).len(),
                "url": format!("mirror://debian/pool/main/x/{name}/{name}_1_amd64.deb"),
            })
        })
        .collect();
    let lock = serde_json::json!({
        "schema": 1, "flavour": "base", "architecture": "amd64", "suite": "unstable",
        "snapshot": SNAPSHOT, "inputs": inputs,
    });
    Lock::parse(lock.to_string().as_bytes()).unwrap()
}

fn sources(cache: &Path) -> Sources {
    Sources {
        cache: Some(cache.to_owned()),
        mirror: Some("http://127.0.0.1:1/nobody".to_owned()),
        snapshot: Some("http://127.0.0.1:1/archive/debian".to_owned()),
        ..Sources::default()
    }
}

#[test]
fn folder_is_searched_by_name_and_by_sha256() {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lock = lock(&["a", "b", "c"]);
    fs::write(folder.path().join("a_1_amd64.deb"), data("a")).unwrap();
    fs::write(folder.path().join(lock.inputs[1].sha256()), data("b")).unwrap();
    fs::create_dir(folder.path().join("sha256")).unwrap();
    fs::write(
        folder.path().join("sha256").join(lock.inputs[2].sha256()),
        data("c"),
    )
    .unwrap();
    let sources = Sources {
        folder: Some(folder.path().to_owned()),
        offline: true,
        ..sources(cache.path())
    };
    assert_eq!(
        fetch(&lock, &sources, &Silent).unwrap(),
        [data("a"), data("b"), data("c")]
    );
    for wrong in [&b"the package x"[..], b"short"] {
        fs::write(folder.path().join("a_1_amd64.deb"), wrong).unwrap();
        assert!(matches!(
            fetch(&lock, &sources, &Silent),
            Err(Error::Mismatch { .. })
        ));
    }
}

#[test]
fn downloads_from_the_mirror_are_cached() {
    let cache = tempfile::tempdir().unwrap();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let server = Server::start(|(path, range)| {
        let name = path
            .rsplit('/')
            .next()
            .unwrap()
            .trim_end_matches("_1_amd64.deb");
        serve(&data(name), &(path.clone(), *range))
    });
    let lock = lock(&names);
    let expected: Vec<_> = names.iter().map(|name| data(name)).collect();
    let online = Sources {
        mirror: Some(format!("{}/debian/", server.address)),
        ..sources(cache.path())
    };
    assert_eq!(fetch(&lock, &online, &Silent).unwrap(), expected);
    let mut paths: Vec<_> = server
        .requests()
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    paths.sort();
    assert_eq!(paths.len(), names.len());
    assert_eq!(paths[0], "/debian/pool/main/x/a/a_1_amd64.deb");
    let offline = Sources {
        offline: true,
        ..online.clone()
    };
    assert_eq!(fetch(&lock, &offline, &Silent).unwrap(), expected);
    // Only the damaged file in the cache is downloaded again.
    fs::write(
        cache::input_path(cache.path(), lock.inputs[3].sha256()),
        b"the package x",
    )
    .unwrap();
    assert_eq!(fetch(&lock, &online, &Silent).unwrap(), expected);
    assert_eq!(server.requests().len(), names.len() + 1);
}

#[test]
fn files_missing_on_the_mirror_come_from_the_snapshot_archive() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|(path, range)| {
        if path.starts_with("/archive/debian/20261030t200801z/pool/") {
            serve(&data("a"), &(path.clone(), *range))
        } else {
            answer("404 Not Found", "", 0, b"")
        }
    });
    let sources = Sources {
        mirror: Some(format!("{}/debian", server.address)),
        snapshot: Some(format!("{}/archive/debian", server.address)),
        ..sources(cache.path())
    };
    assert_eq!(
        fetch(&lock(&["a"]), &sources, &Silent).unwrap(),
        [data("a")]
    );
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn unavailable_files_are_named_with_every_answer() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|_| answer("404 Not Found", "", 0, b""));
    let sources = Sources {
        mirror: Some(format!("{}/debian", server.address)),
        ..sources(cache.path())
    };
    let error = fetch(&lock(&["a", "b"]), &sources, &Silent).unwrap_err();
    let message = error.to_string().replace(&server.address, "http://MIRROR");
    let message = message.replace(&cache.path().display().to_string(), "CACHE");
    insta::assert_snapshot!(message);
}

#[test]
fn without_a_cache_nothing_is_left_behind() {
    let server = Server::start(|request| serve(&data("a"), request));
    let sources = Sources {
        cache: None,
        mirror: Some(server.address.clone()),
        ..Sources::default()
    };
    assert_eq!(
        fetch(&lock(&["a"]), &sources, &Silent).unwrap(),
        [data("a")]
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let unwritable = Sources {
        cache: Some(file.path().to_owned()),
        ..sources
    };
    let error = fetch(&lock(&["a"]), &unwritable, &Silent).unwrap_err();
    assert!(
        matches!(error, Error::Read { .. } | Error::Cache { .. }),
        "{error}"
    );
}
