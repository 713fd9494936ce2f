//! A lock is refreshed only from an index that apt verified.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Serves these files to whoever asks; its address.
fn serve(files: BTreeMap<&'static str, String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            // The rest of the head has to be read before the connection is closed.
            let _ = lines.take_while(|line| !line.is_empty()).count();
            let path = first.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match files.get(path) {
                Some(body) => ("200 OK", body.as_str()),
                None => ("404 Not Found", ""),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            // apt may have hung up.
            let _ = (&stream).write_all((head + body).as_bytes());
        }
    });
    format!("http://{address}/debian")
}

/// What refreshing from that mirror says; it has to fail and to leave no lock.
fn refused(mirror: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = folder.path().join("new.json");
    let output = Command::new(env!("CARGO_BIN_EXE_guest-image"))
        .args([
            "lock",
            "--refresh",
            "--arch",
            "amd64",
            "--mirror",
            mirror,
            "--out",
        ])
        .arg(&lock)
        .env("XDG_CACHE_HOME", folder.path())
        .env("no_proxy", "127.0.0.1")
        .output()
        .expect("the program was built");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!lock.exists(), "{said}");
    said
}

/// Elsewhere than on Debian and its kin there is nothing to refuse with.
fn has_apt() -> bool {
    Path::new("/usr/bin/apt-get").exists()
}

const PACKAGES: &str = "Package: libc6\nVersion: 9\nArchitecture: amd64\nFilename: pool/main/g/glibc/libc6_9_amd64.deb\nSize: 1\n\
    SHA256: 0000000000000000000000000000000000000000000000000000000000000000\n";

fn release() -> String {
    // The sum of PACKAGES does not matter: apt must not get that far.
    let sum = "0".repeat(64);
    format!(
        "Origin: Debian\nLabel: Debian\nSuite: unstable\nCodename: sid\nDate: Fri, 30 Oct 2026 08:08:01 UTC\n\
        Architectures: amd64\nComponents: main\nSHA256:\n {sum} {} main/binary-amd64/Packages\n",
        PACKAGES.len()
    )
}

#[test]
fn an_index_that_nobody_signed_is_refused() {
    if !has_apt() {
        return;
    }
    let said = refused(&serve(BTreeMap::from([
        ("/debian/dists/unstable/Release", release()),
        (
            "/debian/dists/unstable/main/binary-amd64/Packages",
            PACKAGES.to_owned(),
        ),
    ])));
    assert!(said.contains("is not signed"), "{said}");
}

#[test]
fn an_index_signed_by_a_stranger_is_refused() {
    if !has_apt() {
        return;
    }
    let signed = format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{}-----BEGIN PGP SIGNATURE-----\n\niQ==\n=aaaa\n-----END PGP SIGNATURE-----\n",
        release()
    );
    let said = refused(&serve(BTreeMap::from([
        ("/debian/dists/unstable/InRelease", signed),
        (
            "/debian/dists/unstable/main/binary-amd64/Packages",
            PACKAGES.to_owned(),
        ),
    ])));
    assert!(said.contains("could not fetch and verify"), "{said}");
}

#[test]
fn a_mirror_without_the_suite_is_refused() {
    if !has_apt() {
        return;
    }
    let said = refused(&serve(BTreeMap::new()));
    assert!(said.contains("could not fetch and verify"), "{said}");
    for bad in [
        "ftp://mirror.example/debian",
        "http://mirror.example/a b",
        "http://m\nTrusted: yes",
    ] {
        assert!(refused(bad).contains("no address of a mirror"));
    }
}
