//! Queries as people write them, over small and large indexes.

use serde_json::json;

use super::*;

fn tool(name: &str, description: &str, parameters: &[&str]) -> Tool {
    let properties: serde_json::Map<String, serde_json::Value> = parameters
        .iter()
        .map(|name| ((*name).to_owned(), json!({})))
        .collect();
    Tool {
        name: name.to_owned(),
        title: None,
        description: Some(description.to_owned()),
        input_schema: json!({"type": "object", "properties": properties}),
        output_schema: None,
    }
}

fn indexed(name: &str, tools: Vec<Tool>) -> IndexedServer {
    let aliases = tools.iter().map(|tool| tool.name.clone()).collect();
    IndexedServer {
        name: name.into(),
        alias: name.to_owned(),
        tools: Arc::new(ServerTools { tools, aliases }),
    }
}

fn example() -> Index {
    Index::new(&[
        indexed(
            "github",
            vec![
                tool(
                    "create_issue",
                    "Create a new issue in a repository",
                    &["owner", "repo", "title", "body"],
                ),
                tool(
                    "list_issues",
                    "List the issues of a repository",
                    &["owner", "repo", "state"],
                ),
                tool(
                    "getFileContents",
                    "Read a file from a repository",
                    &["owner", "repo", "path"],
                ),
                tool(
                    "delete_repo",
                    "Delete a repository for ever",
                    &["owner", "repo"],
                ),
            ],
        ),
        indexed(
            "weather",
            vec![tool(
                "forecast",
                "Weather for a place on the next days",
                &["latitude", "longitude"],
            )],
        ),
        indexed(
            "jira",
            vec![tool(
                "create_ticket",
                "Create an issue",
                &["project", "summary"],
            )],
        ),
    ])
}

fn found(index: &Index, query: &str) -> Vec<String> {
    let findings = index.search(query, 5, &[]);
    findings
        .hits
        .iter()
        .map(|hit| format!("{}.{}", hit.server, hit.tool().name))
        .collect()
}

#[test]
fn the_tool_that_is_meant_comes_first() {
    let index = example();
    for (query, expected) in [
        ("create issue", "github.create_issue"),
        ("create_issue", "github.create_issue"),
        ("createIssue", "github.create_issue"),
        ("createissue", "github.create_issue"),
        ("issues", "github.list_issues"),
        ("jira issue", "jira.create_ticket"),
        ("how do I read a file", "github.getFileContents"),
        ("latitude", "weather.forecast"),
        ("github delete", "github.delete_repo"),
        ("contents", "github.getFileContents"),
        // Typos.
        ("craete isue", "github.create_issue"),
        ("forcast", "weather.forecast"),
        ("wether", "weather.forecast"),
        ("reposiotry delete", "github.delete_repo"),
        // Beginnings.
        ("fore", "weather.forecast"),
        ("del", "github.delete_repo"),
    ] {
        assert_eq!(
            found(&index, query).first().map(String::as_str),
            Some(expected),
            "{query}"
        );
    }
}

#[test]
fn what_fits_nothing_finds_nothing() {
    let index = example();
    for query in ["", "   ", "!?", "zzzzqqq", "x"] {
        assert_eq!(found(&index, query), Vec::<String>::new(), "{query}");
    }
    assert_eq!(found(&Index::new(&[]), "issue"), Vec::<String>::new());
    assert!(found(&index, &"issue ".repeat(100_000)).len() <= 5);
}

#[test]
fn equal_hits_keep_one_order_and_the_limit_holds() {
    let tools = || {
        (0..50)
            .map(|n| tool(&format!("same{n:02}"), "alike", &[]))
            .collect::<Vec<_>>()
    };
    let index = Index::new(&[indexed("b", tools()), indexed("a", tools())]);
    let first = found(&index, "alike");
    assert_eq!(
        first,
        ["a.same00", "a.same01", "a.same02", "a.same03", "a.same04"]
    );
    assert_eq!(first, found(&index, "alike"));
}

/// 5,000 tools of 100 servers with texts as long as real ones.
fn large() -> Index {
    let verbs = [
        "create", "list", "get", "update", "delete", "search", "export", "import", "merge",
        "archive",
    ];
    let nouns = [
        "issue",
        "repository",
        "ticket",
        "document",
        "calendar",
        "invoice",
        "customer",
        "message",
        "branch",
        "report",
    ];
    let shelves: Vec<_> = (0..100)
        .map(|server| {
            let tools = (0..50)
                .map(|number| {
                    let (verb, noun) = (verbs[number % 10], nouns[(number / 5 + server) % 10]);
                    let name = format!("{verb}_{noun}_{number}");
                    let description = format!(
                        "{verb} one {noun} of workspace{server} and answer with its fields{number}. Use this where unit{} \
                         of department{} asks for it; see also the other tools about {noun} and page{}.",
                        number * 7 + server, server * 13 + number, number * server
                    );
                    tool(&name, &description, &["workspace_id", "page_size", "filter", "sort_order"])
                })
                .collect();
            indexed(&format!("server{server}"), tools)
        })
        .collect();
    Index::new(&shelves)
}

#[test]
fn a_query_over_five_thousand_tools_is_quick() {
    let index = large();
    assert_eq!(index.tools.len(), 5000);
    let queries = [
        "create issue",
        "serch docment page_size",
        "customer invoice export server42",
        "workspace department unit",
    ];
    let mut best = std::time::Duration::MAX;
    for _ in 0..5 {
        let started = std::time::Instant::now();
        for query in queries {
            assert_eq!(index.search(query, 5, &[]).hits.len(), 5, "{query}");
        }
        best = best.min(started.elapsed() / 4);
    }
    // The goal is 5 ms in a release build; unoptimised code on a busy machine is given ten times as long.
    let limit = std::time::Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 5 });
    assert!(best < limit, "{best:?} for one query");
}

proptest::proptest! {
    #[test]
    fn no_query_makes_it_panic(query in "(?s).{0,60}") {
        example().search(&query, 20, &[]);
    }
}
