//! Connecting to an address: who answers there, and a client that speaks the version of the API
//! that both sides know.

use std::path::Path;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::net::{TcpStream, UnixStream};

use super::address::{Address, TlsFiles};
use super::cause::innermost;
use super::ping::{Pong, ping};
use crate::{ConnectError, Identity};
use bridge_common::error::io_reason;
use bridge_settings::EngineKind;

/// How long an address has to answer. Podman behind a systemd socket takes a second to start on a
/// slow machine.
const ANSWER: Duration = Duration::from_secs(10);
/// Seconds that bollard waits for the head of an answer; every call has its own, shorter deadline.
const CLIENT_SECONDS: u64 = 600;

/// An engine that answered, and the way to talk to it.
pub(crate) struct Connection {
    /// Which engine answered.
    pub(crate) identity: Identity,
    /// A client that speaks the agreed version.
    pub(super) client: Docker,
    /// The engine's socket, where that is on this machine.
    pub(super) socket: Option<std::path::PathBuf>,
}

/// Connects to an address and asks who answers there.
pub(crate) async fn connect(address: &Address, origin: &str) -> Result<Connection, ConnectError> {
    match tokio::time::timeout(ANSWER, connect_at_leisure(address, origin)).await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::Silent(ANSWER)),
    }
}

async fn connect_at_leisure(address: &Address, origin: &str) -> Result<Connection, ConnectError> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).await?;
            let pong = ping(stream).await?;
            let client = Docker::connect_with_unix(
                &path.to_string_lossy(),
                CLIENT_SECONDS,
                &pong.api_version,
            );
            let client = client.map_err(|error| innermost(&error))?;
            // A socket on Linux is this machine's, unless somebody forwards it; elsewhere it always
            // leads into a virtual machine, of the same processor as a rule but not surely.
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
            let stream = TcpStream::connect(host).await?;
            let pong = ping(stream).await?;
            let client = Docker::connect_with_http(
                &format!("tcp://{host}"),
                CLIENT_SECONDS,
                &pong.api_version,
            );
            let client = client.map_err(|error| innermost(&error))?;
            let architecture = asked_architecture(&client).await?;
            Ok(finish(pong, client, address, origin, architecture, None))
        }
        Address::Tcp(host, Some(tls)) => connect_with_tls(address, host, tls, origin).await,
    }
}

/// With certificates the client asks `/version`, which is slow on podman; over a network that
/// hardly matters.
async fn connect_with_tls(
    address: &Address,
    host: &str,
    tls: &TlsFiles,
    origin: &str,
) -> Result<Connection, ConnectError> {
    for file in [&tls.authority, &tls.certificate, &tls.key] {
        if let Err(error) = std::fs::File::open(file) {
            return Err(ConnectError::Certificate {
                path: file.clone(),
                problem: io_reason(&error),
            });
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
    let client = client.map_err(|error| innermost(&error))?;
    let client = client
        .negotiate_version()
        .await
        .map_err(|error| innermost(&error))?;
    let version = client.version().await.map_err(|error| innermost(&error))?;
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

async fn asked_architecture(client: &Docker) -> Result<String, ConnectError> {
    let version = client.version().await.map_err(|error| innermost(&error))?;
    Ok(named_architecture(&version.arch.unwrap_or_default()))
}

/// The processor by the name that Go and images use.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn socket_without_a_listener_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        let problem = |path| async move {
            let result = connect(&Address::Unix(path), "test").await;
            result.err().expect("a problem")
        };
        assert_eq!(problem(path).await.to_string(), "connection refused");
        let missing = problem(folder.path().join("none")).await;
        assert_eq!(missing.to_string(), "no such file");
    }
}
