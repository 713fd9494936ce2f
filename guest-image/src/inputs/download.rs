//! Downloads one file over HTTP: resumed if interrupted, bounded in size and time, kept only if its
//! SHA-256 is right.

mod partial;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ureq::http::{StatusCode, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use partial::PartialFile;

/// Where systems keep the certificate authorities that they trust.
const TRUST: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Downloads files; shared between threads.
pub(crate) struct Downloader {
    agent: ureq::Agent,
}

/// Why a file could not be downloaded from one server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Request(Box<ureq::Error>),
    #[error("the server answered {0}")]
    Status(StatusCode),
    #[error("interrupted after {bytes} bytes: {source}")]
    Interrupted { bytes: u64, source: io::Error },
    #[error("the file is longer than the {0} bytes in the lock")]
    TooLong(u64),
    #[error("the file has SHA-256 {found}")]
    Sha256 { found: String },
    #[error("cannot write {path:?}: {source}")]
    Write { path: PathBuf, source: io::Error },
}

impl Downloader {
    /// A downloader with the certificate authorities and proxy settings of this machine.
    pub(crate) fn new() -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::Specific(Arc::new(trusted())))
            .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(5)
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(Duration::from_secs(30)))
            .timeout_per_read(Some(Duration::from_secs(30)))
            .timeout_global(Some(Duration::from_secs(15 * 60)))
            .user_agent(concat!("mcp-code-bridge/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.new_agent(),
        }
    }

    /// Downloads `url` to `file` if it has that size and SHA-256. `received` gets the number of
    /// bytes of each piece.
    ///
    /// An incomplete download is kept beside the file as `.part`, which is locked during downloads.
    pub(crate) fn download(
        &self,
        url: &str,
        size: u64,
        sha256: &str,
        file: &Path,
        received: &dyn Fn(u64),
    ) -> Result<(), Error> {
        let mut part = PartialFile::open(file.with_extension("part"), size)?;
        if file.exists() {
            // Another process held the lock and has finished the download.
            received(size);
            return part.discard();
        }
        received(part.have);
        let resumed = part.have > 0;
        let mut result = self
            .fill(url, &mut part, received)
            .and_then(|()| part.check(sha256));
        if resumed && result.as_ref().is_err_and(Error::is_wrong_content) {
            // The old part may be of another file.
            part.empty()?;
            result = self
                .fill(url, &mut part, &|_| ())
                .and_then(|()| part.check(sha256));
        }
        if result.as_ref().is_err_and(Error::is_wrong_content) {
            part.empty()?;
        }
        result?;
        part.keep_as(file)
    }

    /// Downloads what is missing, or everything if the server does not support resuming.
    fn fill(&self, url: &str, part: &mut PartialFile, received: &dyn Fn(u64)) -> Result<(), Error> {
        if part.have == part.size {
            return Ok(());
        }
        let mut request = self
            .agent
            .get(url)
            .header(header::ACCEPT_ENCODING, "identity");
        if part.have > 0 {
            request = request.header(header::RANGE, format!("bytes={}-", part.have));
        }
        let response = request
            .call()
            .map_err(|error| Error::Request(Box::new(error)))?;
        match response.status() {
            StatusCode::OK => part.empty()?,
            StatusCode::PARTIAL_CONTENT if resumes_at(response.headers(), part.have) => {}
            StatusCode::PARTIAL_CONTENT => {
                return Err(Error::Status(StatusCode::RANGE_NOT_SATISFIABLE));
            }
            status => return Err(Error::Status(status)),
        }
        let left = part.size - part.have;
        let mut body = response.into_body().into_reader().take(left + 1);
        let mut buffer = vec![0; 64 << 10];
        loop {
            match body.read(&mut buffer) {
                Ok(0) if part.have == part.size => return Ok(()),
                Ok(0) => return Err(part.interrupted(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    part.append(&buffer[..count])?;
                    received(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(part.interrupted(error)),
            }
        }
    }
}

impl Error {
    /// Whether the content was wrong, and not the connection.
    fn is_wrong_content(&self) -> bool {
        matches!(
            self,
            Self::Sha256 { .. }
                | Self::TooLong(_)
                | Self::Status(StatusCode::RANGE_NOT_SATISFIABLE)
        )
    }
}

/// Whether a partial response starts at the requested byte.
fn resumes_at(headers: &ureq::http::HeaderMap, have: u64) -> bool {
    let range = headers
        .get(header::CONTENT_RANGE)
        .and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {have}-")))
}

/// The certificate authorities that this machine trusts. Without any, `https` fails and `http`
/// remains, which checking the SHA-256 makes safe enough.
fn trusted() -> Vec<ureq::tls::Certificate<'static>> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let files = named.into_iter().chain(TRUST.iter().map(PathBuf::from));
    let Some(bundle) = files.into_iter().find_map(|file| fs::read(file).ok()) else {
        return Vec::new();
    };
    parse_pem(&bundle)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::server::{Server, answer, serve};
    use super::*;
    use crate::sha256;

    const DATA: &[u8] = b"the bytes of a package";

    struct Outcome {
        result: Result<(), Error>,
        received: u64,
        file: Option<Vec<u8>>,
        part: Option<Vec<u8>>,
    }

    /// Downloads `DATA`, with `part` from an earlier attempt.
    fn download(server: &Server, part: Option<&[u8]>) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sum");
        if let Some(part) = part {
            fs::write(folder.path().join("sum.part"), part).unwrap();
        }
        let received = AtomicU64::new(0);
        let result = Downloader::new().download(
            &format!("{}/x", server.address),
            DATA.len() as u64,
            &sha256::hex_digest(DATA),
            &file,
            &|bytes| {
                received.fetch_add(bytes, Ordering::Relaxed);
            },
        );
        Outcome {
            result,
            received: received.into_inner(),
            file: fs::read(file).ok(),
            part: fs::read(folder.path().join("sum.part")).ok(),
        }
    }

    #[test]
    fn file_is_downloaded() {
        let server = Server::start(|request| serve(DATA, request));
        let outcome = download(&server, None);
        outcome.result.unwrap();
        assert_eq!(outcome.received, DATA.len() as u64);
        assert_eq!(outcome.file.as_deref(), Some(DATA));
        assert_eq!(outcome.part, None);
    }

    #[test]
    fn file_that_another_process_downloaded_is_not_requested() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sum");
        fs::write(&file, DATA).unwrap();
        let size = DATA.len() as u64;
        let result = Downloader::new().download(
            "http://127.0.0.1:1/x",
            size,
            &sha256::hex_digest(DATA),
            &file,
            &|_| (),
        );
        result.unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn interrupted_download_is_resumed() {
        let server = Server::start(|request| serve(DATA, request));
        let outcome = download(&server, Some(&DATA[..9]));
        outcome.result.unwrap();
        assert_eq!(outcome.received, DATA.len() as u64);
        assert_eq!(outcome.file.as_deref(), Some(DATA));
        assert_eq!(server.requests(), [("/x".to_owned(), Some(9))]);
    }

    #[test]
    fn download_restarts_if_the_server_does_not_resume() {
        let server = Server::start(|_| answer("200 OK", "", DATA.len(), DATA));
        let outcome = download(&server, Some(b"something else"));
        outcome.result.unwrap();
        assert_eq!(outcome.file.as_deref(), Some(DATA));
    }

    #[test]
    fn download_restarts_if_the_part_was_of_another_file() {
        let server = Server::start(|request| serve(DATA, request));
        for part in [&b"something else"[..], &[b'x'; 22], &[b'x'; 500]] {
            let outcome = download(&server, Some(part));
            outcome.result.unwrap();
            assert_eq!(outcome.file.as_deref(), Some(DATA));
        }
    }

    #[test]
    fn part_is_kept_when_the_connection_breaks() {
        let server = Server::start(|_| answer("200 OK", "", DATA.len(), &DATA[..10]));
        let outcome = download(&server, None);
        let result = outcome.result;
        assert!(
            matches!(result, Err(Error::Interrupted { bytes: 10, .. })),
            "{result:?}"
        );
        assert_eq!(outcome.file, None);
        assert_eq!(outcome.part.as_deref(), Some(&DATA[..10]));
    }

    #[test]
    fn other_content_is_rejected() {
        let other = Server::start(|_| answer("200 OK", "", DATA.len(), &DATA.to_ascii_uppercase()));
        let outcome = download(&other, None);
        let result = outcome.result;
        assert!(matches!(result, Err(Error::Sha256 { .. })), "{result:?}");
        assert_eq!(outcome.file, None);
        assert_eq!(outcome.part, Some(Vec::new()), "no wrong content is kept");
        let long = Server::start(|_| answer("200 OK", "", 1 << 20, &[b'x'; 5000]));
        let result = download(&long, None).result;
        assert!(matches!(result, Err(Error::TooLong(_))), "{result:?}");
        let gone = Server::start(|_| answer("404 Not Found", "", 0, b""));
        let result = download(&gone, None).result;
        let expected = StatusCode::NOT_FOUND;
        assert!(
            matches!(result, Err(Error::Status(status)) if status == expected),
            "{result:?}"
        );
        let noise = Server::start(|_| b"\0\xff not http\r\n\r\n".to_vec());
        let result = download(&noise, None).result;
        assert!(matches!(result, Err(Error::Request(_))), "{result:?}");
    }

    #[test]
    fn redirect_loop_is_an_error() {
        let server = Server::start(|_| answer("302 Found", "Location: /again\r\n", 0, b""));
        assert!(download(&server, None).result.is_err());
        assert!(server.requests().len() < 10);
    }
}
