//! Which servers a session can reach, and what its guest is told about them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bridge_broker::{Broker, GuestError, Kind, Limits, Loaded, Outcome, Run, RunContext, Scope};
use bridge_store::{self as store, Origin, Store};
use bridge_tools::ToolBook;
use bridge_upstream::NoClient;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::world::{World, record, soon, stub, tool};

/// A broker and one session of it, in a world of servers.
pub(crate) struct Session {
    world: World,
    scope: Arc<Scope>,
}

impl Session {
    pub(crate) fn new(entries: &Value) -> Self {
        Self::with(entries, Limits::default())
    }

    pub(crate) fn with(entries: &Value, limits: Limits) -> Self {
        let world = World::with(entries, World::options());
        let book = Arc::new(ToolBook::new(None));
        let nowhere = Store::new(Path::new("/nonexistent"), store::Limits::default());
        let broker = Broker::new(
            world.watcher(),
            Arc::clone(&world.upstreams),
            book,
            Arc::new(nowhere),
            limits,
        );
        Self {
            scope: broker.scope(),
            world,
        }
    }

    pub(crate) async fn load(&self, servers: &[&str]) -> Result<Loaded, GuestError> {
        let servers: Vec<String> = servers.iter().map(|name| (*name).to_owned()).collect();
        self.scope.load(&servers, "", &soon()).await
    }

    pub(crate) fn run(&self) -> (Run, UnboundedReceiver<Outcome>) {
        let context = RunContext {
            deadline: soon().deadline,
            cancel: CancellationToken::new(),
            interact: Arc::new(NoClient),
            origin: Origin::default(),
        };
        self.scope.run(context)
    }

    /// Sends one request in a run of its own.
    async fn ask(&self, method: &str, params: Value) -> Result<Value, GuestError> {
        let (run, mut responses) = self.run();
        run.request(1, method, params);
        responses
            .recv()
            .await
            .unwrap()
            .result
            .map(|payload| payload.value())
    }

    pub(crate) async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<Value, GuestError> {
        self.ask(
            "call_tool",
            json!({"server": server, "tool": tool, "arguments": arguments}),
        )
        .await
    }

    async fn refused(&self, method: &str, params: Value) -> (Kind, String) {
        let refusal = self.ask(method, params).await.unwrap_err();
        (refusal.kind, refusal.message)
    }
}

pub(crate) fn github() -> Value {
    stub(
        &json!({"tools": [tool("create-issue"), tool("list")], "calls": {"create-issue": [["echo"]]}}),
    )
}

#[tokio::test]
async fn only_loaded_servers_are_reached_however_they_are_spelled() {
    let jira = stub(&json!({"tools": [tool("list")]}));
    let session = Session::new(&json!({"github": github(), "Ji-ra": jira}));
    let loaded = session.load(&["github"]).await.unwrap();
    assert_eq!(loaded.known, ["Ji-ra"]);
    session
        .call("github", "create-issue", json!({}))
        .await
        .unwrap();
    let not_loaded = "mcp_ji_ra: server \"Ji-ra\" is known but not loaded; call run_python with servers=[\"Ji-ra\"]";
    for name in ["Ji-ra", "ji_ra"] {
        for (method, params) in [
            ("call_tool", json!({"server": name, "tool": "list"})),
            ("list_tools", json!({"server": name})),
            ("list_resources", json!({"server": name})),
            (
                "read_resource",
                json!({"server": name, "uri": "file:///etc/passwd"}),
            ),
            ("list_prompts", json!({"server": name})),
            ("get_prompt", json!({"server": name, "name": "p"})),
            ("query_tool_docs", json!({"server": name})),
        ] {
            assert_eq!(
                session.refused(method, params).await,
                (Kind::Name, not_loaded.to_owned()),
                "{method}"
            );
        }
    }
    let (kind, message) = session
        .refused("call_tool", json!({"server": "githup", "tool": "list"}))
        .await;
    assert_eq!(kind, Kind::Name);
    assert_eq!(
        message,
        "no server \"githup\"; known: Ji-ra, github (did you mean github?)"
    );
    assert_eq!(
        session.load(&["githup"]).await.unwrap_err().message,
        message
    );

    // The server stays allowed for later calls, until a reset.
    session.load(&["Ji-ra"]).await.unwrap();
    session.call("ji_ra", "list", json!({})).await.unwrap();
    session.call("github", "list", json!({})).await.unwrap();
    assert_eq!(
        session.ask("list_servers", json!({})).await.unwrap(),
        json!(["Ji-ra", "github"])
    );
    session.scope.reset();
    session.call("github", "list", json!({})).await.unwrap_err();
}

#[tokio::test]
async fn server_that_does_not_come_up_costs_only_itself() {
    let broken = stub(&json!({"greeting": [{"stderr": "JIRA_TOKEN is not set\n"}, {"exit": 1}]}));
    let session = Session::new(&json!({"github": github(), "jira": broken}));
    let loaded = session.load(&["github", "jira"]).await.unwrap();
    let cards: Vec<String> = loaded
        .install
        .iter()
        .map(|card| card.definition.name.0.clone())
        .collect();
    assert_eq!(cards, ["github"]);
    let [(name, refusal)] = &loaded.failed[..] else {
        panic!("{:?}", loaded.failed)
    };
    assert_eq!(name.0, "jira");
    assert!(
        refusal
            .message
            .starts_with("server \"jira\" did not start: exited with code 1 after "),
        "{refusal:?}"
    );
    assert!(
        refusal.message.ends_with("; stderr: JIRA_TOKEN is not set"),
        "{refusal:?}"
    );
    session.call("github", "list", json!({})).await.unwrap();
    let known = session.ask("discovered_servers", json!({})).await.unwrap();
    assert_eq!(known[0]["status"], "running");
    assert_eq!(known[1]["status"], "failed");
    assert!(
        known[1]["problem"]
            .as_str()
            .unwrap()
            .contains("JIRA_TOKEN is not set"),
        "{known}"
    );
}

#[tokio::test]
async fn guest_is_given_only_what_is_new() {
    let change = json!([
        {"tools": [tool("t2")]},
        {"notify": ["notifications/tools/list_changed", {}]},
        "echo",
    ]);
    let changing =
        stub(&json!({"tools": [tool("t1"), tool("change")], "calls": {"change": [change]}}));
    let session = Session::new(&json!({"a": changing, "b": github()}));
    let names = |loaded: &Loaded| {
        loaded
            .install
            .iter()
            .map(|card| card.definition.name.0.clone())
            .collect::<Vec<_>>()
    };
    let first = session.load(&["a", "b"]).await.unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(
        serde_json::to_value(first.install[1].card()).unwrap(),
        json!({"name": "b", "alias": "b", "tools": [
            {"name": "create-issue", "alias": "create_issue", "input_schema": {"type": "object"}},
            {"name": "list", "alias": "list", "input_schema": {"type": "object"}},
        ]})
    );
    assert!(session.load(&[]).await.unwrap().install.is_empty());
    session.call("a", "change", json!({})).await.unwrap();
    let (kind, message) = session
        .refused("call_tool", json!({"server": "a", "tool": "t1"}))
        .await;
    assert_eq!(
        (kind, message.as_str()),
        (Kind::Name, "server \"a\" no longer offers a tool \"t1\"")
    );
    assert_eq!(names(&session.load(&[]).await.unwrap()), ["a"]);
    session.scope.forget_installed();
    assert_eq!(names(&session.load(&[]).await.unwrap()), ["a", "b"]);
}

#[tokio::test]
async fn tools_are_found_and_described_without_being_loaded_once_they_are_known() {
    let entries = json!({"github": github(), "never": stub(&json!({}))});
    let session = Session::new(&entries);
    session.load(&["github"]).await.unwrap();
    session.scope.reset();
    let found = session
        .ask(
            "search_tool_docs",
            json!({"query": "create issue", "limit": 3}),
        )
        .await
        .unwrap();
    assert_eq!(
        found["results"][0],
        json!({
            "server": "github", "serverAlias": "github", "tool": "create-issue", "toolAlias": "create_issue",
            "signature": "create_issue()", "loaded": false,
        })
    );
    assert_eq!(found["notStarted"], json!(["never"]));
    let docs = session
        .ask(
            "query_tool_docs",
            json!({"server": "github", "tool": "list", "detail": "full"}),
        )
        .await
        .unwrap();
    assert_eq!(docs[0]["inputSchema"], json!({"type": "object"}));
    let described = session
        .ask("describe_server", json!({"server": "github"}))
        .await
        .unwrap();
    assert_eq!(described["loaded"], false);
    assert_eq!(described["tools"].as_array().unwrap().len(), 2);
    let (kind, message) = session
        .refused(
            "query_tool_docs",
            json!({"server": "github", "detail": "all"}),
        )
        .await;
    assert_eq!(
        (kind, message.as_str()),
        (
            Kind::Type,
            "detail must be \"summary\" or \"full\", not \"all\""
        )
    );
}

#[tokio::test]
async fn hanging_server_does_not_hold_up_runs_that_do_not_name_it() {
    let session = Session::new(
        &json!({"good": github(), "hangs": stub(&json!({"greeting": ["until_cancelled"]}))}),
    );
    let mut context = soon();
    context.deadline = Some(tokio::time::Instant::now() + Duration::from_millis(100));
    let loaded = session
        .scope
        .load(&["hangs".to_owned()], "", &context)
        .await
        .unwrap();
    assert_eq!(loaded.failed[0].1.kind, Kind::Timeout);
    assert!(
        loaded.failed[0]
            .1
            .message
            .contains("is still starting after"),
        "{loaded:?}"
    );
    let other = session.world.upstreams.status(&"hangs".into());
    assert!(
        matches!(other, bridge_upstream::Status::Starting(_)),
        "{other:?}"
    );
    // Neither a reset nor a time limit ends the wait.
    let loaded = session.load(&["good"]).await.unwrap();
    assert_eq!(loaded.failed, []);
    assert_eq!(loaded.left[0].0.0, "hangs");
    session.call("good", "list", json!({})).await.unwrap();
    session.world.upstreams.shutdown().await;
}

#[tokio::test]
async fn call_after_one_that_gave_up_does_not_wait_for_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let listener = tokio::net::UnixListener::bind(&gate).unwrap();
    let slow = stub(&json!({"greeting": [{"gate": gate}], "tools": [tool("echo")]}));
    let session = Session::new(&json!({"slow": slow, "good": github()}));
    let (opened, gave_up) = tokio::join!(
        async { listener.accept().await.unwrap().0 },
        tokio::time::timeout(Duration::from_millis(500), session.load(&["slow"])),
    );
    assert!(gave_up.is_err());
    let loaded = session.load(&["good"]).await.unwrap();
    assert_eq!((loaded.failed.len(), loaded.left.len()), (0, 1));
    assert!(loaded.left[0].1.message.contains("was still starting"));
    // Once the server is up, it is there without being asked for again.
    drop(opened);
    session
        .world
        .upstreams
        .tools(session.world.definition("slow"), &soon())
        .await
        .unwrap();
    let loaded = session.load(&[]).await.unwrap();
    assert_eq!((loaded.install.len(), loaded.left.len()), (1, 0));
    session.world.upstreams.shutdown().await;
}

#[tokio::test]
async fn later_calls_do_not_wait_for_a_server_that_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let broken = stub(&json!({"record": path, "greeting": [{"exit": 1}]}));
    let session = Session::new(&json!({"jira-cloud": broken, "good": github()}));
    let started = |line: &&Value| {
        line.as_str()
            .is_some_and(|line| line.starts_with("started"))
    };
    let starts = || record(&path).iter().filter(started).count();
    let loaded = session.load(&["jira-cloud"]).await.unwrap();
    assert_eq!((loaded.failed.len(), loaded.left.len()), (1, 0));
    // The guest still learns why the server is not there.
    for servers in [&["good"][..], &[]] {
        let loaded = session.load(servers).await.unwrap();
        assert_eq!((loaded.failed.len(), loaded.left.len()), (0, 1));
        assert!(loaded.left[0].1.message.contains("exited with code 1"));
    }
    assert_eq!(starts(), 1);
    for code in [
        "await mcp_jira_cloud.x()",
        "from mcp.servers.jira_cloud import x",
        "runtime.call_tool('jira-cloud', 'x')",
    ] {
        let loaded = session.scope.load(&[], code, &soon()).await.unwrap();
        assert_eq!(loaded.failed.len(), 1, "{code}");
    }
    assert!(starts() > 1);
    session.scope.reset();
    assert_eq!(session.load(&["good"]).await.unwrap().left, []);
    session.world.upstreams.shutdown().await;
}
