//! OAuth: a server that wants a token, an authorization server that is strict, and a user's
//! browser.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use bridge_upstream::Options;
use bridge_upstream::oauth::Tokens;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::World;

/// The server and its authorization server, in one.
struct Site {
    base: String,
    /// The registrations and token requests so far.
    seen: Mutex<Vec<Value>>,
}

impl Site {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let site = Arc::new(Self {
            base,
            seen: Mutex::default(),
        });
        let routes = Router::new()
            .route("/mcp", post(mcp))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route(
                "/.well-known/oauth-authorization-server",
                get(authorization_server),
            )
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&site));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        site
    }

    fn see(&self, what: Value) {
        self.seen.lock().unwrap().push(what);
    }
}

async fn mcp(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    // The first token has expired by the time it arrives.
    if headers
        .get(header::AUTHORIZATION)
        .is_none_or(|value| value != "Bearer access-2")
    {
        let challenge = format!(
            "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
            site.base
        );
        return (
            StatusCode::UNAUTHORIZED,
            [(header::WWW_AUTHENTICATE, challenge)],
        )
            .into_response();
    }
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": {"name": "site", "version": "1"},
        }),
        "tools/call" => json!({"content": [], "structuredContent": message["params"]["arguments"]}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn resource(State(site): State<Arc<Site>>) -> Json<Value> {
    Json(json!({"resource": format!("{}/mcp", site.base), "authorization_servers": [site.base]}))
}

async fn authorization_server(State(site): State<Arc<Site>>) -> Json<Value> {
    let base = &site.base;
    Json(json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
    }))
}

async fn register(State(site): State<Arc<Site>>, Json(request): Json<Value>) -> Response {
    site.see(json!({ "register": request }));
    let grants = request["grant_types"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if !grants.iter().any(|grant| grant == "refresh_token") {
        return (
            StatusCode::BAD_REQUEST,
            Json(json!({"error": "invalid_client_metadata"})),
        )
            .into_response();
    }
    let client = json!({"client_id": "client-1", "redirect_uris": request["redirect_uris"]});
    (StatusCode::CREATED, Json(client)).into_response()
}

async fn authorize(Query(query): Query<HashMap<String, String>>) -> Response {
    assert_eq!(query["code_challenge_method"], "S256");
    let back = &query["redirect_uri"];
    // An address that another page sends the browser to does not belong to this login.
    let forged = format!("{back}?error=forged&state=guessed");
    let host = forged.strip_prefix("http://").unwrap();
    let (host, path) = host.split_once('/').unwrap();
    assert!(fetch(host, path).await.starts_with("HTTP/1.1 404"));
    let to = if query["resource"].ends_with("/refused") {
        format!(
            "{back}?error=access_denied&error_description=the+user+said+no&state={}",
            query["state"]
        )
    } else {
        format!("{back}?code=code-1&state={}", query["state"])
    };
    (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
}

async fn token(
    State(site): State<Arc<Site>>,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    site.see(json!({ "token": form }));
    let token = match form["grant_type"].as_str() {
        "authorization_code"
            if form
                .get("code_verifier")
                .is_some_and(|verifier| verifier.len() >= 43) =>
        {
            json!({"access_token": "access-1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "refresh-1"})
        }
        "refresh_token" if form["refresh_token"] == "refresh-1" => {
            json!({"access_token": "access-2", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "refresh-2"})
        }
        _ => {
            return (
                StatusCode::BAD_REQUEST,
                Json(json!({"error": "invalid_grant"})),
            )
                .into_response();
        }
    };
    Json(token).into_response()
}

async fn fetch(host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// The user's browser: goes where it is sent.
pub(crate) async fn browse(mut url: String) {
    loop {
        let (host, path) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let response = fetch(host, path).await;
        let location = response
            .lines()
            .find_map(|line| line.strip_prefix("location: "));
        let Some(location) = location else {
            assert!(response.contains("This page can be closed"), "{response}");
            return;
        };
        location.trim().clone_into(&mut url);
    }
}

#[tokio::test]
async fn login_gives_tokens_that_are_refreshed_and_kept() {
    let site = Site::start().await;
    let url = format!("{}/mcp", site.base);
    let folder = tempfile::tempdir().unwrap();
    let options = || Options {
        tokens: Some(folder.path().to_owned()),
        ..World::options()
    };
    let entry = json!({"stub": {"type": "http", "url": url}});
    let world = World::with(&entry, options());
    let error = world.call("echo", json!({})).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "server \"stub\" needs a login; the user can do that with: mcp-code-bridge servers login stub"
    );

    let browser = Mutex::new(None);
    let tokens = Tokens::of(folder.path(), &url);
    let show = |url: &str| *browser.lock().unwrap() = Some(tokio::spawn(browse(url.to_owned())));
    tokens.login(&url, show).await.unwrap();
    let browser = browser.lock().unwrap().take().unwrap();
    browser.await.unwrap();

    // The first token is refused and silently exchanged for the second, which the next bridge finds
    // on disk.
    assert_eq!(
        world.call("echo", json!({"a": 1})).await.unwrap()["structuredContent"],
        json!({"a": 1})
    );
    let next = World::with(&entry, options());
    assert_eq!(
        next.call("echo", json!({"a": 2})).await.unwrap()["structuredContent"],
        json!({"a": 2})
    );
    let seen = site.seen.lock().unwrap().clone();
    let grants: Vec<&Value> = seen
        .iter()
        .filter_map(|seen| seen.pointer("/token/grant_type"))
        .collect();
    assert_eq!(grants, ["authorization_code", "refresh_token"]);
    assert_eq!(seen[1].pointer("/token/resource"), Some(&json!(url)));

    // After a logout the server needs a login again.
    tokens.remove().unwrap();
    let gone = World::with(&entry, options());
    assert!(
        gone.call("echo", json!({}))
            .await
            .unwrap_err()
            .to_string()
            .contains("needs a login")
    );
}

#[tokio::test]
async fn refusal_is_reported_as_such_and_other_pages_cannot_end_a_login() {
    let site = Site::start().await;
    let url = format!("{}/refused", site.base);
    let folder = tempfile::tempdir().unwrap();
    let browser = Mutex::new(None);
    let tokens = Tokens::of(folder.path(), &url);
    let show = |url: &str| *browser.lock().unwrap() = Some(tokio::spawn(browse(url.to_owned())));
    let error = tokens.login(&url, show).await.unwrap_err().to_string();
    assert_eq!(error, "login refused: access_denied (the user said no)");
    let browser = browser.lock().unwrap().take().unwrap();
    browser.await.unwrap();
    assert!(!tokens.exist());
}
