//! The HTTP client of all connections, and what an endpoint says of the credentials that it wants.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::Response;

/// Time for the server to say what credentials it wants.
const CHALLENGE_TIME: Duration = Duration::from_secs(10);

/// A client that trusts the machine's certificates and carries no credentials from one host to
/// another.
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    // The program has installed it already; then this changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let same_host = reqwest::redirect::Policy::custom(|attempt| {
        let (from, to) = (attempt.previous().first(), attempt.url());
        if attempt.previous().len() < 5 && from.is_some_and(|from| from.origin() == to.origin()) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    reqwest::Client::builder()
        .user_agent(concat!("mcp-code-bridge/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        .redirect(same_host)
        .build()
}

/// What the endpoint wants to be shown, by its answer to a request without credentials.
pub(crate) async fn challenge_of(url: &str) -> Option<String> {
    let request = client()
        .ok()?
        .post(url)
        .header(ACCEPT, "text/event-stream, application/json")
        .header(CONTENT_TYPE, "application/json")
        .body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .timeout(CHALLENGE_TIME);
    let response = request.send().await.ok()?;
    (response.status() == http::StatusCode::UNAUTHORIZED)
        .then(|| challenge(&response))
        .flatten()
}

/// The credentials that the server wants, as it says beside a refusal.
pub(crate) fn challenge(response: &Response) -> Option<String> {
    let value = response.headers().get(WWW_AUTHENTICATE)?;
    value.to_str().ok().map(str::to_owned)
}
