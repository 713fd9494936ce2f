//! One file over HTTP: resumed where it was cut off, bounded in size and time, kept only if its sum is right.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ureq::http::{StatusCode, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::sha256::Hasher;

/// Where systems keep the authorities that they trust.
const TRUST: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Downloads files; shared by threads.
pub(crate) struct Client {
    agent: ureq::Agent,
}

/// Why a file could not be downloaded from one place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{url}: {source}")]
    Request {
        url: String,
        source: Box<ureq::Error>,
    },
    #[error("{url}: answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("{url}: broke off after {bytes} bytes: {source}")]
    Broken {
        url: String,
        bytes: u64,
        source: io::Error,
    },
    #[error("{url}: is longer than the {size} bytes that the lock says")]
    TooLong { url: String, size: u64 },
    #[error("{url}: has sha256 {found}, not {expected}")]
    Sum {
        url: String,
        found: String,
        expected: String,
    },
    #[error("cannot write {path:?}: {source}")]
    Write { path: PathBuf, source: io::Error },
}

impl Client {
    /// A client that trusts whom this machine trusts and uses its proxy settings.
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

    /// Gets `url` into `file` if it has that size and sum. `told` hears how many more bytes there are each time.
    ///
    /// What is not complete stays beside it as `.part`, locked while somebody writes to it.
    pub(crate) fn download(
        &self,
        url: &str,
        size: u64,
        sha256: &str,
        file: &Path,
        told: &dyn Fn(u64),
    ) -> Result<(), Error> {
        let part = file.with_extension("part");
        let failed = |source| Error::Write {
            path: part.clone(),
            source,
        };
        let mut output = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&part)
            .map_err(failed)?;
        output.lock().map_err(failed)?;
        if file.exists() {
            // Another process had the lock, and finished.
            told(size);
            return fs::remove_file(&part).or_else(|_| Ok(()));
        }
        let mut have = output.metadata().map_err(failed)?.len();
        if have > size {
            output.set_len(0).map_err(failed)?;
            have = 0;
        }
        told(have);
        let resumed = have > 0;
        let result = self
            .fill(url, size, have, &mut output, &part, told)
            .and_then(|()| check(url, sha256, &mut output, &part));
        if let Err(error) = result {
            if resumed
                && matches!(
                    error,
                    Error::Sum { .. }
                        | Error::TooLong { .. }
                        | Error::Status {
                            status: StatusCode::RANGE_NOT_SATISFIABLE,
                            ..
                        }
                )
            {
                // What was there before was of another file.
                output.set_len(0).map_err(failed)?;
                self.fill(url, size, 0, &mut output, &part, &|_| ())?;
                check(url, sha256, &mut output, &part)?;
            } else {
                if !matches!(
                    error,
                    Error::Broken { .. } | Error::Request { .. } | Error::Status { .. }
                ) {
                    output.set_len(0).map_err(failed)?;
                }
                return Err(error);
            }
        }
        output.sync_all().map_err(failed)?;
        fs::rename(&part, file).map_err(failed)
    }

    /// Appends what is missing, or starts anew where the server does not resume.
    fn fill(
        &self,
        url: &str,
        size: u64,
        have: u64,
        output: &mut File,
        part: &Path,
        told: &dyn Fn(u64),
    ) -> Result<(), Error> {
        if have == size {
            return Ok(());
        }
        let failed = |source| Error::Write {
            path: part.to_owned(),
            source,
        };
        let mut request = self
            .agent
            .get(url)
            .header(header::ACCEPT_ENCODING, "identity");
        if have > 0 {
            request = request.header(header::RANGE, format!("bytes={have}-"));
        }
        let response = request.call().map_err(|source| Error::Request {
            url: url.to_owned(),
            source: Box::new(source),
        })?;
        let mut at = match response.status() {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if resumes_at(response.headers(), have) => have,
            StatusCode::PARTIAL_CONTENT => {
                return Err(Error::Status {
                    url: url.to_owned(),
                    status: StatusCode::RANGE_NOT_SATISFIABLE,
                });
            }
            status => {
                return Err(Error::Status {
                    url: url.to_owned(),
                    status,
                });
            }
        };
        output.set_len(at).map_err(failed)?;
        output.seek(SeekFrom::Start(at)).map_err(failed)?;
        let mut body = response.into_body().into_reader().take(size - at + 1);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(Error::Broken {
                        url: url.to_owned(),
                        bytes: at,
                        source,
                    });
                }
            };
            at += count as u64;
            if at > size {
                return Err(Error::TooLong {
                    url: url.to_owned(),
                    size,
                });
            }
            output.write_all(&buffer[..count]).map_err(failed)?;
            told(count as u64);
        }
        if at < size {
            let source = io::ErrorKind::UnexpectedEof.into();
            return Err(Error::Broken {
                url: url.to_owned(),
                bytes: at,
                source,
            });
        }
        Ok(())
    }
}

/// Whether a partial answer starts where we asked it to.
fn resumes_at(headers: &ureq::http::HeaderMap, have: u64) -> bool {
    let range = headers
        .get(header::CONTENT_RANGE)
        .and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {have}-")))
}

fn check(url: &str, sha256: &str, output: &mut File, part: &Path) -> Result<(), Error> {
    let mut hasher = Hasher::default();
    output
        .seek(SeekFrom::Start(0))
        .and_then(|_| io::copy(output, &mut hasher))
        .map_err(|source| Error::Write {
            path: part.to_owned(),
            source,
        })?;
    let found = hasher.hex();
    if found == sha256 {
        return Ok(());
    }
    Err(Error::Sum {
        url: url.to_owned(),
        found,
        expected: sha256.to_owned(),
    })
}

/// The authorities that this machine trusts; none makes `https` fail and leaves `http`, which sums make safe enough.
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
        told: u64,
        file: Option<Vec<u8>>,
        part: Option<Vec<u8>>,
    }

    /// Downloads with `part` there already.
    fn download(server: &Server, part: Option<&[u8]>) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sum");
        if let Some(part) = part {
            fs::write(folder.path().join("sum.part"), part).unwrap();
        }
        let told = AtomicU64::new(0);
        let result = Client::new().download(
            &format!("{}/x", server.address),
            DATA.len() as u64,
            &sha256::hex(DATA),
            &file,
            &|bytes| {
                told.fetch_add(bytes, Ordering::Relaxed);
            },
        );
        Outcome {
            result,
            told: told.into_inner(),
            file: fs::read(file).ok(),
            part: fs::read(folder.path().join("sum.part")).ok(),
        }
    }

    #[test]
    fn gets_a_file() {
        let server = Server::start(|request| serve(DATA, request));
        let outcome = download(&server, None);
        outcome.result.unwrap();
        assert_eq!(outcome.told, DATA.len() as u64);
        assert_eq!(outcome.file.as_deref(), Some(DATA));
        assert_eq!(outcome.part, None);
    }

    #[test]
    fn goes_on_where_it_was_cut_off() {
        let server = Server::start(|request| serve(DATA, request));
        let outcome = download(&server, Some(&DATA[..9]));
        outcome.result.unwrap();
        assert_eq!(outcome.told, DATA.len() as u64);
        assert_eq!(outcome.file.as_deref(), Some(DATA));
        assert_eq!(server.requests(), [("/x".to_owned(), Some(9))]);
    }

    #[test]
    fn starts_anew_where_the_server_does_not_resume() {
        let server = Server::start(|_| answer("200 OK", "", DATA.len(), DATA));
        let outcome = download(&server, Some(b"something else"));
        outcome.result.unwrap();
        assert_eq!(outcome.file.as_deref(), Some(DATA));
    }

    #[test]
    fn starts_anew_where_the_beginning_was_of_another_file() {
        let server = Server::start(|request| serve(DATA, request));
        for part in [&b"something else"[..], &[b'x'; 22], &[b'x'; 500]] {
            let outcome = download(&server, Some(part));
            outcome.result.unwrap();
            assert_eq!(outcome.file.as_deref(), Some(DATA));
        }
    }

    #[test]
    fn keeps_what_came_before_the_connection_broke() {
        let server = Server::start(|_| answer("200 OK", "", DATA.len(), &DATA[..10]));
        let outcome = download(&server, None);
        let result = outcome.result;
        assert!(
            matches!(result, Err(Error::Broken { bytes: 10, .. })),
            "{result:?}"
        );
        assert_eq!(outcome.file, None);
        assert_eq!(outcome.part.as_deref(), Some(&DATA[..10]));
    }

    #[test]
    fn refuses_what_is_not_the_file() {
        let other = Server::start(|_| answer("200 OK", "", DATA.len(), &DATA.to_ascii_uppercase()));
        let outcome = download(&other, None);
        let result = outcome.result;
        assert!(matches!(result, Err(Error::Sum { .. })), "{result:?}");
        assert_eq!(outcome.file, None);
        assert_eq!(outcome.part, Some(Vec::new()), "nothing of it is kept");
        let long = Server::start(|_| answer("200 OK", "", 1 << 20, &[b'x'; 5000]));
        let result = download(&long, None).result;
        assert!(matches!(result, Err(Error::TooLong { .. })), "{result:?}");
        let gone = Server::start(|_| answer("404 Not Found", "", 0, b""));
        let result = download(&gone, None).result;
        let expected = StatusCode::NOT_FOUND;
        assert!(
            matches!(result, Err(Error::Status { status, .. }) if status == expected),
            "{result:?}"
        );
        let noise = Server::start(|_| b"\0\xff not http\r\n\r\n".to_vec());
        let result = download(&noise, None).result;
        assert!(matches!(result, Err(Error::Request { .. })), "{result:?}");
    }

    #[test]
    fn does_not_go_round_in_circles() {
        let server = Server::start(|_| answer("302 Found", "Location: /again\r\n", 0, b""));
        assert!(download(&server, None).result.is_err());
        assert!(server.requests().len() < 10);
    }
}
