//! The local page that the browser comes back to at the end of a login.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Longer requests do not come from an authorization server's redirect.
const REQUEST_BYTES: u64 = 16 * 1024;
/// A connection that says nothing must not keep the browser out for longer.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// A parameter of an address.
pub(super) fn parameter(address: &str, name: &str) -> Option<String> {
    let address = reqwest::Url::parse(address).ok()?;
    let found = address.query_pairs().find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

/// Waits for the browser and returns the whole address that it was sent to. Any page may send a
/// browser here: a request that does not belong to this login, by its state, does not end it.
pub(super) async fn wait_for_browser(
    listener: &TcpListener,
    redirect: &str,
    expected_state: &str,
) -> io::Result<String> {
    let origin = redirect.trim_end_matches("/callback");
    loop {
        let (mut stream, _) = listener.accept().await?;
        let read = tokio::time::timeout(REQUEST_TIME, request_target(&mut stream)).await;
        let Ok(Ok(target)) = read else { continue };
        let address = format!("{origin}{target}");
        let is_ours = target.starts_with("/callback?")
            && parameter(&address, "state").is_some_and(|state| state == expected_state);
        let (status, page) = if is_ours && parameter(&address, "error").is_some() {
            (
                "200 OK",
                "The login was refused. This page can be closed.\n",
            )
        } else if is_ours {
            ("200 OK", "You are logged in. This page can be closed.\n")
        } else {
            ("404 Not Found", "There is nothing here.\n")
        };
        let length = page.len();
        let response = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
        );
        let _ = stream.write_all(response.as_bytes()).await;
        let _ = stream.shutdown().await;
        if is_ours {
            return Ok(address);
        }
    }
}

/// The target of a GET request; empty for any other.
async fn request_target(stream: &mut TcpStream) -> io::Result<String> {
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(REQUEST_BYTES));
    reader.read_line(&mut line).await?;
    let target = line
        .strip_prefix("GET ")
        .and_then(|rest| rest.split(' ').next());
    Ok(target.unwrap_or_default().to_owned())
}
