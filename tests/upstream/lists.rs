//! Lists of tools: all pages are read, bad tools are skipped, announced changes are seen.

use serde_json::{Value, json};

use crate::world::{World, recorded, soon, tool};

async fn names(world: &World) -> Vec<String> {
    let list = world.tools().await.unwrap();
    list.tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn all_pages_are_read() {
    let tools: Vec<Value> = (0..7).map(|number| tool(&format!("t{number}"))).collect();
    let world = World::stub(json!({"tools": tools, "page": 3}));
    assert_eq!(
        names(&world).await,
        ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]
    );
}

#[tokio::test]
async fn endless_pages_end_with_the_entries_so_far() {
    let page = json!({"result": {"tools": [tool("a"), {"name": "bad", "inputSchema": 1}], "nextCursor": "x"}});
    let world = World::stub(json!({"methods": {"tools/list": [page]}}));
    let list = world.tools().await.unwrap();
    assert_eq!(list.tools.len(), 1);
    assert_eq!(
        list.incomplete.as_deref(),
        Some("its pages repeat (cursor \"x\")")
    );
    assert!(list.skipped.contains_key("bad"), "{:?}", list.skipped);

    let page = json!({"result": {"tools": [], "nextCursor": ["$id"]}});
    let world = World::stub(json!({"methods": {"tools/list": [page]}}));
    let list = world.tools().await.unwrap();
    assert_eq!(
        list.incomplete.as_deref(),
        Some("it has more than 512 pages")
    );
}

#[tokio::test]
async fn announced_change_is_seen_by_the_next_caller() {
    let change = json!([
        {"tools": [tool("t1"), tool("t3")]},
        {"notify": ["notifications/tools/list_changed", {}]},
        "echo",
    ]);
    let world =
        World::stub(json!({"tools": [tool("t1"), tool("t2")], "calls": {"change": [change]}}));
    let mut changes = world.upstreams.changes();
    assert_eq!(names(&world).await, ["t1", "t2"]);
    world.call("change", json!({})).await.unwrap();
    assert_eq!(changes.recv().await.unwrap(), "stub".into());
    let list = world.tools().await.unwrap();
    assert_eq!(
        list.tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect::<Vec<_>>(),
        ["t1", "t3"]
    );
    assert!(list.gone.contains("t2"));
}

#[tokio::test]
async fn list_is_asked_for_once() {
    let world = World::new(&[]);
    let record = world.path("record");
    let scenario = json!({"record": record, "tools": [tool("a")]});
    let world = World::with(
        &json!({"stub": crate::world::stub(&scenario)}),
        World::options(),
    );
    let asks = (0..10).map(|_| names(&world));
    for names in futures_util::future::join_all(asks).await {
        assert_eq!(names, ["a"]);
    }
    let asked = crate::world::record(&record)
        .iter()
        .filter(|line| line["method"] == "tools/list")
        .count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn list_that_a_server_does_not_know_is_empty() {
    let world = World::stub(json!({"methods": {
        "tools/list": [{"error": {"code": -32601, "message": "no"}}],
        "prompts/list": [{"result": {"prompts": [{"name": "p"}]}}],
        "prompts/get": [{"result": {"messages": []}}],
        "resources/read": [{"error": {"code": -32002, "message": "not there"}}],
    }}));
    assert!(names(&world).await.is_empty());
    let definition = world.definition("stub");
    assert_eq!(
        world
            .upstreams
            .resources(definition, false, &soon())
            .await
            .unwrap(),
        Vec::<Value>::new()
    );
    assert_eq!(
        world.upstreams.prompts(definition, &soon()).await.unwrap(),
        [json!({"name": "p"})]
    );
    let prompt = world
        .upstreams
        .prompt(definition, "p", crate::world::no_arguments(), &soon())
        .await
        .unwrap();
    assert_eq!(prompt.value(), json!({"messages": []}));
    let error = world
        .upstreams
        .read_resource(definition, "file:///x", &soon())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "stub.read_resource: not there");
}

#[tokio::test]
async fn changes_are_announced_in_revisions_without_initialize_too() {
    let world = World::new(&[]);
    let record = world.path("record");
    let change = json!([
        {"tools": [tool("t2")]},
        {"notify": ["notifications/tools/list_changed", {"_meta": {"io.modelcontextprotocol/subscriptionId": 3}}]},
        "echo",
    ]);
    let scenario = json!({"record": record, "modern": true, "tools": [tool("t1")], "calls": {"change": [change]}});
    let world = World::with(
        &json!({"stub": crate::world::stub(&scenario)}),
        World::options(),
    );
    assert_eq!(names(&world).await, ["t1"]);
    recorded(&record, |line| line["method"] == "subscriptions/listen").await;
    world.call("change", json!({})).await.unwrap();
    assert_eq!(names(&world).await, ["t2"]);
    let listed = recorded(&record, |line| line["method"] == "tools/list").await;
    assert_eq!(
        listed["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
}
