//! Servers over HTTP that lose their sessions, and how they say so.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use bridge_upstream::Error;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::world::{World, tool};

/// How a server refuses a session that it does not know.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LostSession {
    NotFound,
    Gone,
    /// 401 with the code -32001.
    Unauthorized,
    /// 400 with an error that names no request.
    BadRequest,
    /// 400 with text only.
    BadRequestInWords,
    /// 200 with the code -32001, naming no request.
    AnswerToNone,
    /// 200 with the code -32001, naming the request.
    AnswerToTheRequest,
}

/// A server that forgets its sessions when told to.
struct Site {
    url: String,
    how: LostSession,
    sessions: Mutex<HashSet<String>>,
    tools: Mutex<Vec<Value>>,
    /// The methods of what was accepted.
    seen: Mutex<Vec<String>>,
}

impl Site {
    async fn start(how: LostSession) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let site = Arc::new(Self {
            url: format!("http://{}/mcp", listener.local_addr().unwrap()),
            how,
            sessions: Mutex::default(),
            tools: Mutex::new(vec![tool("echo")]),
            seen: Mutex::default(),
        });
        let routes = Router::new()
            .route("/mcp", post(posted).get(resumed))
            .with_state(Arc::clone(&site));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        site
    }

    fn world(&self) -> World {
        let entry = json!({"stub": {"type": "http", "url": self.url}});
        World::with(&entry, World::options())
    }

    fn restart(&self) {
        self.sessions.lock().unwrap().clear();
        self.tools.lock().unwrap().push(tool("new"));
    }

    fn times(&self, method: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|seen| *seen == method).count()
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        headers
            .get("mcp-session-id")
            .and_then(|session| session.to_str().ok())
            .is_some_and(|session| self.sessions.lock().unwrap().contains(session))
    }

    fn refuse(&self, id: &Value) -> Response {
        let error = |code: i64, id: Value| {
            Json(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "?"}}))
        };
        match self.how {
            LostSession::NotFound => StatusCode::NOT_FOUND.into_response(),
            LostSession::Gone => StatusCode::GONE.into_response(),
            LostSession::Unauthorized => {
                (StatusCode::UNAUTHORIZED, error(-32001, Value::Null)).into_response()
            }
            LostSession::BadRequest => {
                (StatusCode::BAD_REQUEST, error(-32000, Value::Null)).into_response()
            }
            LostSession::BadRequestInWords => (StatusCode::BAD_REQUEST, "No.").into_response(),
            LostSession::AnswerToNone => error(-32001, Value::Null).into_response(),
            LostSession::AnswerToTheRequest => error(-32001, id.clone()).into_response(),
        }
    }
}

async fn posted(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    let method = message["method"].as_str().unwrap_or_default();
    if method != "initialize" && !site.knows(&headers) {
        return site.refuse(&message["id"]);
    }
    site.seen.lock().unwrap().push(method.to_owned());
    let mut session = None;
    let result = match method {
        "initialize" => {
            let name = format!("session-{}", site.times("initialize"));
            site.sessions.lock().unwrap().insert(name.clone());
            session = Some(name);
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            })
        }
        "tools/list" => json!({"tools": *site.tools.lock().unwrap()}),
        "tools/call" if message["params"]["name"] == "lost" => {
            site.restart();
            // The stream ends before the answer, and may be resumed.
            let start = "id: event-1\nretry: 1\ndata:\n\n";
            return ([(header::CONTENT_TYPE, "text/event-stream")], start).into_response();
        }
        // What some SDKs say when a tool took too long.
        "tools/call" if message["params"]["name"] == "slow" => {
            let error = json!({"code": -32001, "message": "Request timed out"});
            return Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
                .into_response();
        }
        "tools/call" => {
            json!({"content": [], "structuredContent": message["params"]["arguments"]})
        }
        "ping" => json!({}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let answer = Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    match session {
        Some(session) => ([("mcp-session-id", session)], answer).into_response(),
        None => answer.into_response(),
    }
}

async fn resumed(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    if site.knows(&headers) {
        let change = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        let start = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(format!(
            "data: {change}\n\n"
        ))]);
        let body = Body::from_stream(start.chain(futures_util::stream::pending()));
        ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
    } else {
        site.refuse(&Value::Null)
    }
}

#[tokio::test]
async fn session_lost_by_a_restart_is_made_anew_however_the_server_says_so() {
    for how in [
        LostSession::NotFound,
        LostSession::Gone,
        LostSession::Unauthorized,
        LostSession::BadRequest,
        LostSession::BadRequestInWords,
        LostSession::AnswerToNone,
        LostSession::AnswerToTheRequest,
    ] {
        let site = Site::start(how).await;
        let world = site.world();
        assert_eq!(world.tools().await.unwrap().tools.len(), 1, "{how:?}");
        world.call("echo", json!({"a": 1})).await.unwrap();
        site.restart();
        let result = world
            .call("echo", json!({"a": 2}))
            .await
            .unwrap_or_else(|error| panic!("{how:?}: {error}"));
        assert_eq!(result["structuredContent"], json!({"a": 2}), "{how:?}");
        assert_eq!(world.tools().await.unwrap().tools.len(), 2, "{how:?}");
        assert_eq!(site.times("initialize"), 2, "{how:?}");
        assert_eq!(site.times("tools/call"), 2, "{how:?}");
    }
}

#[tokio::test]
async fn calls_that_lose_one_session_together_make_one_new_one() {
    let site = Site::start(LostSession::NotFound).await;
    let world = site.world();
    world.call("echo", json!({"a": 1})).await.unwrap();
    site.restart();
    let calls = (0..8).map(|number| world.call("echo", json!({ "number": number })));
    for (number, result) in futures_util::future::join_all(calls)
        .await
        .into_iter()
        .enumerate()
    {
        assert_eq!(
            result.unwrap()["structuredContent"],
            json!({ "number": number })
        );
    }
    assert_eq!(site.times("initialize"), 2);
    assert_eq!(site.times("tools/call"), 9);
}

#[tokio::test]
async fn lists_are_asked_for_again_on_a_new_session() {
    let site = Site::start(LostSession::NotFound).await;
    let world = site.world();
    world.call("echo", json!({})).await.unwrap();
    site.restart();
    assert_eq!(world.tools().await.unwrap().tools.len(), 2);
}

#[tokio::test]
async fn call_under_way_when_its_session_is_lost_is_not_repeated() {
    let site = Site::start(LostSession::NotFound).await;
    let world = site.world();
    let error = world.call("lost", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Died { .. }), "{error}");
    assert_eq!(site.times("tools/call"), 1);
    world.call("echo", json!({})).await.unwrap();
    assert_eq!(site.times("initialize"), 2);
}

#[tokio::test]
async fn error_of_a_tool_with_the_code_of_lost_sessions_is_passed_on() {
    let site = Site::start(LostSession::NotFound).await;
    let world = site.world();
    let error = world.call("slow", json!({})).await.unwrap_err();
    let Error::Rpc { error, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(error.code, -32001);
    world.call("echo", json!({})).await.unwrap();
    assert_eq!((site.times("initialize"), site.times("tools/call")), (1, 2));
}

#[tokio::test]
async fn changes_are_announced_on_the_stream_of_no_request() {
    let site = Site::start(LostSession::NotFound).await;
    let world = site.world();
    let mut changes = world.upstreams.changes();
    world.call("echo", json!({})).await.unwrap();
    let patience = std::time::Duration::from_secs(20);
    let announced = tokio::time::timeout(patience, changes.recv()).await;
    assert_eq!(announced.unwrap().unwrap().0, "stub");
}
