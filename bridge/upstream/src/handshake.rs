//! Finds out which protocol a server speaks: a revision with `initialize` (up to 2025-11-25), or
//! one without (2026-07-28 on), which begins with `server/discover`.
//!
//! Nearly all servers answer `initialize`, so that is asked first. An error leads to the other
//! question at once; silence leads to it as well, without giving up on the first, so that a server
//! that is slow to start loses nothing.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, RequestContext};
use super::failure::Failure;
use super::message::{code, start_of};
use super::transport::http::with_root_cause;

/// Time until a silent server is asked the other question.
const PROBE_AFTER: Duration = Duration::from_secs(3);

/// The most bytes of an answer to the handshake.
const LARGEST_ANSWER: usize = 1024 * 1024;

/// What a server said of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// The protocol revision agreed on.
    pub protocol: String,
    /// The revision has no `initialize`; each request carries its own metadata.
    pub modern: bool,
    /// The capabilities of the server, as it sent them.
    pub capabilities: Value,
    /// The name and version of the server, as it sent them; null where it sent none.
    pub info: Value,
    /// The instructions of the server for the model.
    pub instructions: Option<String>,
}

impl Peer {
    /// Whether the server promises to tell when its tools change.
    pub(super) fn tells_of_changed_tools(&self) -> bool {
        self.capabilities.pointer("/tools/listChanged") == Some(&Value::Bool(true))
    }
}

/// Why the two sides did not agree on a protocol.
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// The request failed, or the whole connection.
    Failure(Failure),
    /// The server answered, but not with an agreement; what it said instead.
    Unexpected(String),
}

/// Which questions to ask, and in what order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Questions {
    /// `initialize`, then `server/discover` where that fails or is not answered.
    Both,
    /// Nothing but `initialize`.
    Initialize,
    /// Nothing but `server/discover`.
    Discover,
}

/// Agrees on a revision and leaves `connection` ready for requests. Ends with the connection at the
/// latest; the caller sets a time limit.
pub(super) async fn shake_hands(
    connection: &Arc<Connection>,
    questions: Questions,
    client_capabilities: &Value,
) -> Result<Peer, HandshakeError> {
    match questions {
        Questions::Initialize => initialize(connection, client_capabilities).await,
        Questions::Discover => discover(connection, client_capabilities).await,
        Questions::Both => {
            let mut first = std::pin::pin!(initialize(connection, client_capabilities));
            let early = tokio::select! {
                peer = &mut first => Some(peer),
                () = tokio::time::sleep(PROBE_AFTER) => None,
            };
            match early {
                Some(Ok(peer)) => Ok(peer),
                Some(Err(HandshakeError::Failure(
                    failure @ (Failure::Closed { .. } | Failure::Cancelled),
                ))) => Err(HandshakeError::Failure(failure)),
                Some(Err(first)) => discover(connection, client_capabilities)
                    .await
                    .map_err(|second| both(&first, second)),
                None => {
                    let mut second = std::pin::pin!(discover(connection, client_capabilities));
                    tokio::select! {
                        peer = &mut first => match peer {
                            Ok(peer) => Ok(peer),
                            Err(first) => second.await.map_err(|second| both(&first, second)),
                        },
                        peer = &mut second => match peer {
                            Ok(peer) => Ok(peer),
                            Err(second) => first.await.map_err(|first| both(&first, second)),
                        },
                    }
                }
            }
        }
    }
}

fn both(initialize: &HandshakeError, discover: HandshakeError) -> HandshakeError {
    match discover {
        closed @ HandshakeError::Failure(Failure::Closed { .. }) => closed,
        discover => HandshakeError::Unexpected(format!(
            "it answered initialize with {}, and server/discover with {}",
            describe(initialize),
            describe(&discover)
        )),
    }
}

/// Puts into words what came instead of an agreement.
pub(super) fn describe(refusal: &HandshakeError) -> String {
    match refusal {
        HandshakeError::Unexpected(text) => text.clone(),
        HandshakeError::Failure(Failure::Rpc(error)) => {
            format!("error {} ({})", error.code, start_of(&error.message))
        }
        HandshakeError::Failure(Failure::Transport(error)) => with_root_cause(error),
        HandshakeError::Failure(Failure::Closed { reason, .. }) => reason.clone(),
        HandshakeError::Failure(Failure::Malformed(what)) => what.clone(),
        HandshakeError::Failure(Failure::TooLarge { bytes }) => format!("{bytes} bytes"),
        HandshakeError::Failure(
            Failure::Cancelled | Failure::TimedOut(_) | Failure::Unauthorized(_),
        ) => "no answer".to_owned(),
    }
}

async fn initialize(
    connection: &Arc<Connection>,
    client_capabilities: &Value,
) -> Result<Peer, HandshakeError> {
    let mut params = Map::new();
    params.insert(
        "protocolVersion".to_owned(),
        ProtocolVersion::LATEST_WITH_INITIALIZE.as_str().into(),
    );
    params.insert("capabilities".to_owned(), client_capabilities.clone());
    params.insert("clientInfo".to_owned(), client_info());
    let result = request(connection, "initialize", params).await?;
    let Some(protocol) = result.get("protocolVersion").and_then(Value::as_str) else {
        return Err(HandshakeError::Unexpected(start_of(&result.to_string())));
    };
    // Some servers agree to whatever revision they are asked for; some answer with one that does
    // not have `initialize`.
    let modern = protocol >= ProtocolVersion::V_2026_07_28.as_str();
    if modern {
        connection.set_metadata(metadata(protocol, client_capabilities));
    }
    let peer = peer(protocol.to_owned(), modern, &result);
    connection.protocol_agreed(protocol);
    connection
        .notify("notifications/initialized", Map::new())
        .await
        .map_err(HandshakeError::Failure)?;
    Ok(peer)
}

async fn discover(
    connection: &Arc<Connection>,
    client_capabilities: &Value,
) -> Result<Peer, HandshakeError> {
    let version = ProtocolVersion::V_2026_07_28;
    let metadata = metadata(version.as_str(), client_capabilities);
    let mut params = Map::new();
    params.insert("_meta".to_owned(), Value::Object(metadata.clone()));
    let result = match request(connection, "server/discover", params).await {
        Err(HandshakeError::Failure(Failure::Rpc(error)))
            if error.code == code::UNSUPPORTED_VERSION =>
        {
            let supported = error
                .data
                .get("supported")
                .map_or_else(|| error.message.clone(), Value::to_string);
            return Err(HandshakeError::Unexpected(format!(
                "no support for {} but for {}",
                version.as_str(),
                start_of(&supported)
            )));
        }
        result => result?,
    };
    let versions = result.get("supportedVersions").and_then(Value::as_array);
    match versions {
        Some(versions)
            if versions
                .iter()
                .any(|supported| supported == version.as_str()) => {}
        Some(versions) => {
            let supported = start_of(&json!(versions).to_string());
            return Err(HandshakeError::Unexpected(format!(
                "no support for {} but for {supported}",
                version.as_str()
            )));
        }
        None => return Err(HandshakeError::Unexpected(start_of(&result.to_string()))),
    }
    connection.set_metadata(metadata);
    connection.protocol_agreed(version.as_str());
    Ok(peer(version.as_str().to_owned(), true, &result))
}

async fn request(
    connection: &Arc<Connection>,
    method: &'static str,
    params: Map<String, Value>,
) -> Result<Value, HandshakeError> {
    let never = CancellationToken::new();
    let result = connection
        .request(method, params, RequestContext::of(&never))
        .await
        .map_err(HandshakeError::Failure)?;
    if result.get().len() > LARGEST_ANSWER {
        return Err(HandshakeError::Unexpected(format!(
            "{} bytes",
            result.get().len()
        )));
    }
    Ok(result.value())
}

fn peer(protocol: String, modern: bool, result: &Value) -> Peer {
    Peer {
        protocol,
        modern,
        capabilities: result.get("capabilities").cloned().unwrap_or(Value::Null),
        info: result.get("serverInfo").cloned().unwrap_or(Value::Null),
        instructions: result
            .get("instructions")
            .and_then(Value::as_str)
            .map(str::to_owned),
    }
}

fn client_info() -> Value {
    json!({"name": "mcp-code-bridge", "version": env!("CARGO_PKG_VERSION")})
}

fn metadata(version: &str, client_capabilities: &Value) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert(
        "io.modelcontextprotocol/protocolVersion".to_owned(),
        version.into(),
    );
    metadata.insert(
        "io.modelcontextprotocol/clientInfo".to_owned(),
        client_info(),
    );
    metadata.insert(
        "io.modelcontextprotocol/clientCapabilities".to_owned(),
        client_capabilities.clone(),
    );
    metadata
}
