//! A scripted engine, for answers that real engines cannot be made to give.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::address::Address;
use super::connect::connect;
use super::hardening::tests::spec;
use super::*;
use bridge_common::host::HostEnv;

/// What is answered to a request: a status and a body.
type Answer = (u16, Value);

/// A scripted engine; what it was asked for is noted.
struct Scripted {
    engine: DockerEngine,
    asked: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

impl Scripted {
    /// `script` is given the method and the path from `containers/` on, without its query, but with
    /// the condition of a wait. A status of 0 means that no answer comes.
    async fn new(script: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).expect("bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (script, noted) = (Arc::new(script), asked.clone());
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(answer(connection, script.clone(), noted.clone()));
            }
        });
        let connection = connect(&Address::Unix(PathBuf::from(&socket)), "test").await;
        let host = HostEnv::fake_below(folder.path(), []);
        let engine = DockerEngine::new(connection.expect("it answers"), &host);
        Self {
            engine: engine.expect("of this machine's architecture"),
            asked,
            _folder: folder,
        }
    }

    fn asked(&self, word: &str) -> usize {
        let asked = self.asked.lock().expect("no panic");
        asked.iter().filter(|line| line.contains(word)).count()
    }
}

/// One request; all that are asked here have no body.
async fn answer(
    mut connection: UnixStream,
    script: Arc<impl Fn(&str, &str) -> Answer>,
    noted: Arc<Mutex<Vec<String>>>,
) {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if connection.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split_whitespace();
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let path = match path.split_once('?') {
        Some((path, _)) if !path.ends_with("/wait") => path,
        _ => path,
    };
    let path = path.find("containers/").map_or(path, |at| &path[at..]);
    noted
        .lock()
        .expect("no panic")
        .push(format!("{method} {path}"));
    let (status, body) = script(method, path);
    if status == 0 {
        return std::future::pending().await;
    }
    let body = if status == 204 {
        String::new()
    } else {
        body.to_string()
    };
    let answer = format!(
        "HTTP/1.1 {status} Said\r\nApi-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    // Who asked may be gone.
    let _ = connection.write_all(answer.as_bytes()).await;
}

/// Labels of a container that has lost its owner.
fn lost(owner: &Owner) -> BTreeMap<String, String> {
    let mut labels = owner.labels(None);
    labels.insert("io.mcp-code-bridge.instance".to_owned(), "x".to_owned());
    labels.insert("io.mcp-code-bridge.owner-pid".to_owned(), "4194303".into());
    labels
}

#[tokio::test]
async fn containers_in_unknown_states_hide_nothing() {
    let owner = Owner::of_process();
    let list = json!([
        {"Id": "stopped", "State": "stopped", "Labels": lost(&owner)},
        {"Id": "stuck", "State": "exited", "Labels": lost(&owner)},
        {"Id": "bare", "State": "no such state", "Labels": null},
        {"State": "running"},
        "nonsense",
        {"Id": "alive", "State": "running", "Labels": owner.labels(None)},
        {"Id": "last", "State": "initialized", "Labels": lost(&owner)},
    ]);
    let script = move |method: &str, path: &str| match (method, path) {
        (_, "containers/json") => (200, list.clone()),
        // On its way out, it is said, and never gets there.
        ("DELETE", "containers/stuck") => (409, json!({"message": "in progress"})),
        ("POST", "containers/stuck/wait?condition=removed") => {
            (500, json!({"message": "cannot wait"}))
        }
        ("DELETE", _) => (204, Value::Null),
        _ => (200, json!("OK")),
    };
    let scripted = Scripted::new(script).await;
    assert_eq!(scripted.engine.reap(&owner).await.expect("a count"), 2);
    for (container, asked) in [
        ("stopped", 1),
        ("stuck", 1),
        ("last", 1),
        ("alive", 0),
        ("bare", 0),
    ] {
        let found = scripted.asked(&format!("DELETE containers/{container}"));
        assert_eq!(found, asked, "{container}");
    }
    // A guardian removes all containers of its bridge, and learns whether one is left.
    let swept = scripted.engine.remove_all_of(owner.instance()).await;
    assert!(swept.is_err_and(|error| error.to_string().contains("cannot wait")));
    assert_eq!(scripted.asked("DELETE containers/last"), 2);
    assert_eq!(scripted.engine.running().await.expect("a count"), 5);
}

#[tokio::test]
async fn failed_list_is_asked_for_again() {
    let times = AtomicUsize::new(0);
    let scripted = Scripted::new(move |_, path| match path {
        "containers/json" if times.fetch_add(1, Ordering::SeqCst) == 0 => {
            (500, json!({"message": "no such container"}))
        }
        "containers/json" => (200, json!([])),
        _ => (200, json!("OK")),
    })
    .await;
    let reaped = scripted.engine.reap(&Owner::of_process()).await;
    assert_eq!(reaped.expect("a count"), 0);
    assert_eq!(scripted.asked("containers/json"), 2);
}

#[tokio::test]
async fn container_is_described_in_any_state() {
    let scripted = Scripted::new(|_, path| match path {
        "containers/odd/json" => (
            200,
            json!({"Id": "odd", "Image": "sha256:0123", "State": {"Status": "initialized"}}),
        ),
        "containers/broken/json" => (200, json!({"Id": {}, "State": {"Status": "running"}})),
        _ => (200, json!("OK")),
    })
    .await;
    let inspect = |id: &str| {
        let id = ContainerId(id.to_owned());
        let engine = &scripted.engine;
        async move { engine.inspect(&id, &spec()).await }
    };
    let created = inspect("odd").await.expect("described");
    assert_eq!(created.image_id, "sha256:0123");
    let error = inspect("broken").await.expect_err("nonsense");
    assert!(matches!(error, Error::Nonsense { .. }), "{error}");
}

/// Before 4.6, podman looks for a removal without a pause: it is not asked while a guest lives.
#[tokio::test]
async fn podman_is_asked_for_a_removal_only_after_the_end() {
    let scripted = Scripted::new(|_, path| match path {
        "containers/missed/wait?condition=next-exit" => (0, Value::Null),
        "containers/missed/wait?condition=removed" => (404, json!({"message": "gone"})),
        _ => (200, json!({"StatusCode": 137})),
    })
    .await;
    let wait = |id: &str| {
        let (id, ended) = (ContainerId(id.to_owned()), CancellationToken::new());
        let (engine, token) = (&scripted.engine, ended.clone());
        (ended, async move { engine.wait(&id, token).await })
    };
    let (_ended, seen) = wait("seen");
    let code = |end: Result<Exit, Error>| end.map(|exit| exit.code).expect("an end");
    assert_eq!(code(seen.await), 137);
    assert_eq!(scripted.asked("condition=removed"), 0);

    let (ended, missed) = wait("missed");
    let mut missed = std::pin::pin!(missed);
    while scripted.asked("missed/wait?condition=next-exit") == 0 {
        assert!(futures_util::poll!(&mut missed).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(scripted.asked("condition=removed"), 0);
    ended.cancel();
    assert_eq!(code(missed.await), -1, "nobody can tell");
}
