//! The first question to an address: whether an engine answers there, and which.
//!
//! The question is `/_ping`, not `/version`: its headers say enough, and podman takes a third of a
//! second over `/version` (it runs its helpers to ask for theirs) but a millisecond over this.

use std::pin::pin;

use bollard::{API_DEFAULT_VERSION, ClientVersion};
use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderMap, SERVER};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::cause::innermost;
use crate::ConnectError;
use bridge_settings::EngineKind;

/// The largest head of an answer that is read.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// What a ping's answer says.
#[derive(Debug, PartialEq)]
pub(super) struct Pong {
    pub(super) kind: EngineKind,
    pub(super) version: String,
    /// The newest that both sides know.
    pub(super) api_version: ClientVersion,
}

/// Asks on a fresh connection, which is closed afterwards.
pub(super) async fn ping(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Pong, ConnectError> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(&error))?;
    let question = Request::get("/_ping")
        .header(HOST, "engine")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| ConnectError::Client(error.to_string()))?;
    // The head of the answer is enough: a wedged engine may keep the connection open. One that
    // closes it has answered, or will not.
    let answer = match select(pin!(sender.send_request(question)), pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, answer)) => answer.await,
    };
    let answer = answer.map_err(|error| failed(&error))?;
    read(answer.status(), answer.headers())
}

/// What cannot be read as HTTP, or says nothing, is something else than an engine.
fn failed(error: &hyper::Error) -> ConnectError {
    if error.is_parse() || error.is_incomplete_message() {
        ConnectError::NotAnEngine
    } else {
        innermost(error)
    }
}

fn read(status: StatusCode, headers: &HeaderMap) -> Result<Pong, ConnectError> {
    if status != StatusCode::OK {
        return Err(ConnectError::Status(status.to_string()));
    }
    let header = |name: &str| {
        let value = headers.get(name)?.to_str().ok()?.trim();
        (!value.is_empty()).then_some(value)
    };
    let offered = header("Api-Version")
        .and_then(read_version)
        .ok_or(ConnectError::NotAnEngine)?;
    let (kind, version) = match header("Libpod-Api-Version") {
        Some(version) => (EngineKind::Podman, version.to_owned()),
        None => (
            EngineKind::Docker,
            server_version(header(SERVER.as_str()).unwrap_or_default()),
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The pong of something that gives this answer and then closes the connection.
    async fn pong(answer: &str) -> Result<Pong, ConnectError> {
        let (here, mut there) = tokio::io::duplex(4096);
        let answer = answer.to_owned();
        tokio::spawn(async move {
            let mut question = [0; 1024];
            let _ = there.read(&mut question).await;
            let _ = there.write_all(answer.as_bytes()).await;
        });
        ping(here).await
    }

    #[tokio::test]
    async fn engines_are_told_apart_by_their_pong() {
        let podman = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\nServer: Libpod/4.3.1 (linux)\r\n\r\nOK";
        let podman = pong(podman).await.expect("podman");
        assert_eq!(
            (podman.kind, podman.version.as_str()),
            (EngineKind::Podman, "4.3.1")
        );
        let docker =
            "HTTP/1.1 200 OK\r\napi-version: 1.99\r\nServer: Docker/28.5.2+dfsg1 (linux)\r\n\r\nOK";
        let docker = pong(docker).await.expect("docker");
        assert_eq!(
            (docker.kind, docker.version.as_str()),
            (EngineKind::Docker, "28.5.2+dfsg1")
        );
        assert_eq!(
            docker.api_version, *API_DEFAULT_VERSION,
            "never newer than we know"
        );
    }

    #[tokio::test]
    async fn other_servers_are_named() {
        for (answer, part) in [
            ("", "not a container engine"),
            ("SSH-2.0-OpenSSH\r\n", "not a container engine"),
            (
                "HTTP/1.1 200 OK\r\n\r\nApi-Version: 1.41\r\n",
                "not a container engine",
            ),
            ("HTTP/1.1 503 Busy\r\n\r\n", "503 "),
        ] {
            let problem = pong(answer).await.expect_err(answer).to_string();
            assert!(problem.contains(part), "{answer:?}: {problem}");
        }
    }

    #[tokio::test]
    async fn endless_head_is_refused() {
        let answer = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "x".repeat(100_000));
        assert!(pong(&answer).await.is_err());
    }
}
