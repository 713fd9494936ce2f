//! A lock is only refreshed from an index that apt has verified.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Serves these files over HTTP; returns the URL.
fn serve(files: BTreeMap<&'static str, String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            // The rest of the request must be read before the connection is closed.
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
            // apt may have closed the connection.
            let _ = (&stream).write_all((head + body).as_bytes());
        }
    });
    format!("http://{address}/debian")
}

/// The error message of refreshing from that mirror, which must fail and write no lock.
fn refresh_error(mirror: &str) -> String {
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
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(!lock.exists(), "{message}");
    message
}

/// Whether this is a system with apt.
fn has_apt() -> bool {
    Path::new("/usr/bin/apt-get").exists()
}

const PACKAGES: &str = "Package: libc6\nVersion: 9\nArchitecture: amd64\nFilename: pool/main/g/glibc/libc6_9_amd64.deb\nSize: 1\n\
    SHA256: 0000000000000000000000000000000000000000000000000000000000000000\n";

fn release() -> String {
    // apt must stop before it compares this with the SHA-256 of PACKAGES.
    let sum = "0".repeat(64);
    format!(
        "Origin: Debian\nLabel: Debian\nSuite: unstable\nCodename: sid\nDate: Fri, 30 Oct 2026 08:08:01 UTC\n\
        Architectures: amd64\nComponents: main\nSHA256:\n {sum} {} main/binary-amd64/Packages\n",
        PACKAGES.len()
    )
}

#[test]
fn unsigned_index_is_rejected() {
    if !has_apt() {
        return;
    }
    let message = refresh_error(&serve(BTreeMap::from([
        ("/debian/dists/unstable/Release", release()),
        (
            "/debian/dists/unstable/main/binary-amd64/Packages",
            PACKAGES.to_owned(),
        ),
    ])));
    assert!(message.contains("is not signed"), "{message}");
}

#[test]
fn index_with_an_unknown_signature_is_rejected() {
    if !has_apt() {
        return;
    }
    let signed = format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{}-----BEGIN PGP SIGNATURE-----\n\niQ==\n=aaaa\n-----END PGP SIGNATURE-----\n",
        release()
    );
    let message = refresh_error(&serve(BTreeMap::from([
        ("/debian/dists/unstable/InRelease", signed),
        (
            "/debian/dists/unstable/main/binary-amd64/Packages",
            PACKAGES.to_owned(),
        ),
    ])));
    assert!(message.contains("could not fetch and verify"), "{message}");
}

#[test]
fn mirror_without_the_suite_is_an_error() {
    if !has_apt() {
        return;
    }
    let message = refresh_error(&serve(BTreeMap::new()));
    assert!(message.contains("could not fetch and verify"), "{message}");
    for bad in [
        "ftp://mirror.example/debian",
        "http://mirror.example/a b",
        "http://m\nTrusted: yes",
    ] {
        assert!(refresh_error(bad).contains("invalid mirror"));
    }
}
