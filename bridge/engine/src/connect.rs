//! Asking an address whether an engine answers there, and which.
//!
//! The question is `/_ping`, not `/version`: its headers say enough, and podman takes a third of a second over `/version`
//! (it runs its helpers to ask for theirs) but a millisecond over this.

use std::path::Path;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::Identity;
use super::candidates::{Address, TlsFiles};
use bridge_common::error::io_reason as reason;
use bridge_settings::EngineKind;

/// How long an address has to answer. A socket that systemd starts podman for takes a second on a slow machine.
const ANSWER: Duration = Duration::from_secs(10);
/// Seconds that bollard waits for the head of an answer; every call has its own, shorter deadline.
const CLIENT_SECONDS: u64 = 600;
/// The largest answer to a ping that is read.
const MAX_PING_BYTES: u64 = 16 << 10;

/// An engine that answered, and the way to talk to it.
pub(super) struct Connection {
    /// What it is.
    pub(super) identity: Identity,
    /// The client, at the agreed version.
    pub(super) client: Docker,
    /// Its socket, where it is on this machine.
    pub(super) socket: Option<std::path::PathBuf>,
}

/// Connects to an address; the error is a reason in few words.
pub(super) async fn connect(address: &Address, origin: &str) -> Result<Connection, String> {
    match tokio::time::timeout(ANSWER, connect_at_leisure(address, origin)).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
    }
}

async fn connect_at_leisure(address: &Address, origin: &str) -> Result<Connection, String> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)
                .await
                .map_err(|error| reason(&error))?;
            let pong = ping(stream).await?;
            let client = Docker::connect_with_unix(
                &path.to_string_lossy(),
                CLIENT_SECONDS,
                &pong.api_version,
            );
            let client = client.map_err(|error| error.to_string())?;
            // A socket on Linux is this machine's, unless somebody forwards it; elsewhere it always leads into a
            // virtual machine, of the same processor as a rule but not surely.
            let architecture = if cfg!(target_os = "linux") {
                local_architecture().to_owned()
            } else {
                asked_architecture(&client).await?
            };
            Ok(finish(
                pong,
                client,
                address,
                origin,
                architecture,
                Some(path),
            ))
        }
        Address::Tcp(host, None) => {
            let stream = TcpStream::connect(host)
                .await
                .map_err(|error| reason(&error))?;
            let pong = ping(stream).await?;
            let client = Docker::connect_with_http(
                &format!("tcp://{host}"),
                CLIENT_SECONDS,
                &pong.api_version,
            );
            let client = client.map_err(|error| error.to_string())?;
            let architecture = asked_architecture(&client).await?;
            Ok(finish(pong, client, address, origin, architecture, None))
        }
        Address::Tcp(host, Some(tls)) => connect_with_tls(address, host, tls, origin).await,
    }
}

/// With certificates there is no ping by hand, and one slow `/version` does no harm at that distance.
async fn connect_with_tls(
    address: &Address,
    host: &str,
    tls: &TlsFiles,
    origin: &str,
) -> Result<Connection, String> {
    for file in [&tls.authority, &tls.certificate, &tls.key] {
        if let Err(error) = std::fs::File::open(file) {
            return Err(format!("{}: {}", file.display(), reason(&error)));
        }
    }
    // Whoever installed one first wins; bollard panics where nobody did.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Docker::connect_with_ssl(
        &format!("tcp://{host}"),
        &tls.key,
        &tls.certificate,
        &tls.authority,
        CLIENT_SECONDS,
        API_DEFAULT_VERSION,
    );
    let client = client.map_err(|error| deepest(&error))?;
    let client = client
        .negotiate_version()
        .await
        .map_err(|error| deepest(&error))?;
    let version = client.version().await.map_err(|error| deepest(&error))?;
    let is_podman = version
        .components
        .unwrap_or_default()
        .iter()
        .any(|component| component.name.starts_with("Podman"));
    let pong = Pong {
        kind: if is_podman {
            EngineKind::Podman
        } else {
            EngineKind::Docker
        },
        version: version.version.unwrap_or_default(),
        api_version: client.client_version(),
    };
    let architecture = named_architecture(&version.arch.unwrap_or_default());
    Ok(finish(pong, client, address, origin, architecture, None))
}

fn finish(
    pong: Pong,
    client: Docker,
    address: &Address,
    origin: &str,
    architecture: String,
    socket: Option<&Path>,
) -> Connection {
    Connection {
        identity: Identity {
            kind: pong.kind,
            version: pong.version,
            api_version: format!(
                "{}.{}",
                pong.api_version.major_version, pong.api_version.minor_version
            ),
            endpoint: address.to_string(),
            origin: origin.to_owned(),
            architecture,
        },
        client,
        socket: socket.map(Path::to_owned),
    }
}

/// What a ping's answer tells.
#[derive(Debug, PartialEq)]
struct Pong {
    kind: EngineKind,
    version: String,
    api_version: ClientVersion,
}

async fn ping(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<Pong, String> {
    let question = b"GET /_ping HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n";
    stream
        .write_all(question)
        .await
        .map_err(|error| reason(&error))?;
    let mut answer = Vec::new();
    let mut limited = stream.take(MAX_PING_BYTES);
    // The end of the headers is enough: a wedged engine may keep the connection open.
    while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        let count = limited
            .read_buf(&mut answer)
            .await
            .map_err(|error| reason(&error))?;
        if count == 0 {
            break;
        }
    }
    read_pong(&String::from_utf8_lossy(&answer))
}

fn read_pong(answer: &str) -> Result<Pong, String> {
    let mut lines = answer.lines();
    let status = lines.next().unwrap_or_default();
    let mut words = status.split_whitespace();
    if !words.next().is_some_and(|word| word.starts_with("HTTP/1.")) {
        return Err("something that is no container engine answers".to_owned());
    }
    if words.next() != Some("200") {
        return Err(format!("answers with {status}"));
    }
    let header = |name: &str| {
        lines
            .clone()
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    };
    let Some(offered) = header("Api-Version").and_then(read_version) else {
        return Err("something that is no container engine answers".to_owned());
    };
    let (kind, version) = match header("Libpod-Api-Version") {
        Some(version) => (EngineKind::Podman, version.to_owned()),
        None => (
            EngineKind::Docker,
            server_version(header("Server").unwrap_or_default()),
        ),
    };
    let newest = *API_DEFAULT_VERSION;
    let api_version = if offered < newest { offered } else { newest };
    Ok(Pong {
        kind,
        version,
        api_version,
    })
}

/// `20.10.24` of `Docker/20.10.24 (linux)`.
fn server_version(server: &str) -> String {
    let version = server
        .split_once('/')
        .map_or(server, |(_, version)| version);
    version
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn read_version(text: &str) -> Option<ClientVersion> {
    let (major, minor) = text.split_once('.')?;
    Some(ClientVersion {
        major_version: major.parse().ok()?,
        minor_version: minor.parse().ok()?,
    })
}

async fn asked_architecture(client: &Docker) -> Result<String, String> {
    let version = client.version().await.map_err(|error| deepest(&error))?;
    Ok(named_architecture(&version.arch.unwrap_or_default()))
}

/// Go's names, which images use.
fn named_architecture(name: &str) -> String {
    match name {
        "x86_64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        other => other.to_owned(),
    }
}

fn local_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The innermost cause: what the connection itself said.
pub(super) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<std::io::Error>() {
        Some(error) => reason(error),
        // The HTTP client's words for it.
        None if error.to_string().contains("body from connection") => {
            "connection closed".to_owned()
        }
        None => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_told_apart_by_their_pong() {
        let podman = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\nServer: Libpod/4.3.1 (linux)\r\n\r\nOK";
        let pong = read_pong(podman).expect("podman");
        assert_eq!(
            (pong.kind, pong.version.as_str()),
            (EngineKind::Podman, "4.3.1")
        );
        let docker =
            "HTTP/1.1 200 OK\r\napi-version: 1.99\r\nServer: Docker/28.5.2+dfsg1 (linux)\r\n\r\nOK";
        let pong = read_pong(docker).expect("docker");
        assert_eq!(
            (pong.kind, pong.version.as_str()),
            (EngineKind::Docker, "28.5.2+dfsg1")
        );
        assert_eq!(
            pong.api_version, *API_DEFAULT_VERSION,
            "never newer than we know"
        );
    }

    #[test]
    fn others_are_named() {
        for (answer, part) in [
            ("", "no container engine"),
            ("SSH-2.0-OpenSSH\r\n", "no container engine"),
            (
                "HTTP/1.1 200 OK\r\n\r\nApi-Version: 1.41\r\n",
                "no container engine",
            ),
            ("HTTP/1.1 503 Busy\r\n\r\n", "503 Busy"),
        ] {
            let problem = read_pong(answer).expect_err(answer);
            assert!(problem.contains(part), "{answer:?}: {problem}");
        }
    }

    #[tokio::test]
    async fn a_socket_nobody_listens_on_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        let problem = |path| async move {
            let result = connect(&Address::Unix(path), "test").await;
            result.err().expect("a problem")
        };
        assert_eq!(problem(path).await, "connection refused");
        assert_eq!(problem(folder.path().join("none")).await, "no such file");
    }
}
