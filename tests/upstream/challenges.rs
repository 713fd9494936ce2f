//! What a server wants to be shown, as its challenges say: kept, followed, and refused where it is
//! not safe.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use bridge_upstream::oauth::{LoginError, Tokens};
use bridge_upstream::{Denial, Error, Options};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::login::browse;
use crate::world::World;

/// A server that tells where its metadata is in challenges to POST only.
struct Site {
    base: String,
    pkce: bool,
    /// The scopes of authorization requests.
    asked: Mutex<Vec<String>>,
}

impl Site {
    async fn start(pkce: bool) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let site = Arc::new(Self {
            base,
            pkce,
            asked: Mutex::default(),
        });
        let routes = Router::new()
            .route("/mcp", post(mcp))
            .route("/metadata", get(resource))
            .route("/.well-known/oauth-authorization-server", get(authority))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&site));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        site
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    fn challenge(&self, status: StatusCode, error: &str, scope: &str) -> Response {
        let challenge = format!(
            "Bearer error=\"{error}\", scope=\"{scope}\", resource_metadata=\"{}/metadata\"",
            self.base
        );
        (status, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
    }
}

async fn mcp(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if !token.contains("read") {
        return site.challenge(StatusCode::UNAUTHORIZED, "invalid_token", "files:read");
    }
    if message["params"]["name"] == "write" && !token.contains("write") {
        return site.challenge(StatusCode::FORBIDDEN, "insufficient_scope", "files:write");
    }
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": {"name": "site", "version": "1"},
        }),
        "tools/call" => json!({"content": []}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn resource(State(site): State<Arc<Site>>) -> Json<Value> {
    Json(json!({"resource": site.url(), "authorization_servers": [site.base]}))
}

async fn authority(State(site): State<Arc<Site>>) -> Json<Value> {
    let base = &site.base;
    let mut metadata = json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
    });
    if site.pkce {
        metadata["code_challenge_methods_supported"] = json!(["S256"]);
    }
    Json(metadata)
}

async fn register(Json(request): Json<Value>) -> Response {
    let client = json!({"client_id": "client-1", "redirect_uris": request["redirect_uris"]});
    (StatusCode::CREATED, Json(client)).into_response()
}

async fn authorize(
    State(site): State<Arc<Site>>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let scope = query.get("scope").cloned().unwrap_or_default();
    let to = format!(
        "{}?code={}&state={}",
        query["redirect_uri"],
        scope.replace([' ', ':'], "-"),
        query["state"]
    );
    site.asked.lock().unwrap().push(scope);
    (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
}

async fn token(
    State(site): State<Arc<Site>>,
    Form(form): Form<HashMap<String, String>>,
) -> Json<Value> {
    let scope = site.asked.lock().unwrap().last().cloned();
    Json(json!({
        "access_token": format!("token-{}", form["code"]),
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": scope,
    }))
}

async fn login(tokens: &Tokens, url: &str) -> Result<(), LoginError> {
    let browser = Mutex::new(None);
    let show = |url: &str| *browser.lock().unwrap() = Some(tokio::spawn(browse(url.to_owned())));
    let done = tokens.login(url, show).await;
    let browser = browser.lock().unwrap().take();
    if let Some(browser) = browser {
        browser.await.unwrap();
    }
    done
}

#[tokio::test]
async fn challenge_to_a_post_is_followed_and_a_login_for_more_rights_keeps_the_earlier_ones() {
    let site = Site::start(true).await;
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        tokens: Some(folder.path().to_owned()),
        ..World::options()
    };
    let tokens = Tokens::of(folder.path(), &site.url());
    login(&tokens, &site.url()).await.unwrap();
    assert_eq!(*site.asked.lock().unwrap(), ["files:read"]);

    let world = World::with(
        &json!({"stub": {"type": "http", "url": site.url()}}),
        options,
    );
    world.call("echo", json!({})).await.unwrap();
    let error = world.call("write", json!({})).await.unwrap_err();
    let Error::Unauthorized { denial, .. } = &error else {
        panic!("{error}")
    };
    let wanted = Denial::MoreRightsNeeded {
        scope: Some("files:write".to_owned()),
        configured: false,
    };
    assert_eq!(*denial, wanted);
    assert_eq!(
        error.to_string(),
        "server \"stub\" wants a token with more rights (files:write); the user can allow that with: \
         mcp-code-bridge servers login stub"
    );

    login(&tokens, &site.url()).await.unwrap();
    assert_eq!(site.asked.lock().unwrap()[1], "files:read files:write");
    world.call("write", json!({})).await.unwrap();
}

#[tokio::test]
async fn authorization_server_without_pkce_is_refused() {
    let site = Site::start(false).await;
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::of(folder.path(), &site.url());
    let error = login(&tokens, &site.url()).await.unwrap_err();
    assert!(matches!(error, LoginError::NoPkce), "{error}");
    assert!(site.asked.lock().unwrap().is_empty() && !tokens.exist());
}
