//! Reports of the catalog for people and programs: which files were considered, what each one gave, and
//! which definition of a server won.
//!
//! Reports show names and paths, never values. Text from files is shown without control characters.

use std::fmt::Write as _;

use serde_json::{Value, json};

use bridge_catalog::{
    Catalog, CatalogEntry, Considered, FileState, Outcome, Problem, Severity, Source,
};
use bridge_common::human::plural;
use bridge_tools::{Detail, Findings, ToolBook};

/// Places that are not searched on purpose.
const OUT_OF_SCOPE: &str = "servers of Claude Code plugins and of editor extensions are not read; copy a definition to one of these files";

/// The catalog as a table for people.
pub(crate) fn table(catalog: &Catalog, book: &ToolBook) -> String {
    let mut text = String::new();
    let names = catalog
        .entries()
        .map(|known| width(&known.name.0))
        .max()
        .unwrap_or(0)
        .min(32);
    for known in catalog.entries() {
        server_lines(catalog, book, known, names, &mut text);
    }
    if catalog.entries().next().is_none() {
        text.push_str("no servers are defined\n");
    }
    if !catalog.problems().is_empty() {
        text.push_str("\nproblems\n");
        for problem in catalog.problems() {
            let _ = writeln!(text, "  {}", problem_line(catalog, problem));
        }
    }
    text.push_str("\nfiles, in the order in which they win\n");
    for file in catalog.files() {
        let _ = writeln!(text, "  {}", file_line(catalog, file));
    }
    let _ = writeln!(text, "  {OUT_OF_SCOPE}");
    text
}

fn server_lines(
    catalog: &Catalog,
    book: &ToolBook,
    known: &CatalogEntry,
    names: usize,
    text: &mut String,
) {
    let (word, what) = match &known.outcome {
        Outcome::Ready(definition) => {
            let tools = match book.tools(definition) {
                Some(list) => plural(list.tools.len(), "tool"),
                None => "never started".to_owned(),
            };
            (
                "ok",
                format!(
                    "{} {}, {tools}",
                    definition.transport.kind(),
                    definition.transport.shown()
                ),
            )
        }
        Outcome::Disabled => ("disabled", String::new()),
        Outcome::Broken(reason) => ("broken", reason.to_string()),
    };
    let name = clean(&known.name.0);
    let alias = if known.alias == known.name.0 {
        String::new()
    } else {
        format!(" as {}", known.alias)
    };
    let line = format!(
        "{name:names$}  {word:8}  {}{alias}  {}",
        catalog.place(&known.source),
        what
    );
    let _ = writeln!(text, "{}", clean(line.trim_end()));
    for source in &known.passed_over {
        let _ = writeln!(
            text,
            "{:names$}            passed over: {}",
            "",
            clean(&catalog.place(source))
        );
    }
}

/// One problem in a line: how severe it is, where, and what.
pub(crate) fn problem_line(catalog: &Catalog, problem: &Problem) -> String {
    let word = match problem.severity {
        Severity::Error => "error  ",
        Severity::Warning => "warning",
    };
    let place = match problem.line {
        0 => catalog.search_paths().shown(&problem.path),
        line => format!(
            "{}:{line}:{}",
            catalog.search_paths().shown(&problem.path),
            problem.column
        ),
    };
    let server = problem
        .server
        .as_ref()
        .map(|name| format!("{name}: "))
        .unwrap_or_default();
    clean(&format!("{word} {place}  {server}{}", problem.reason))
}

fn file_line(catalog: &Catalog, file: &Considered) -> String {
    let path = catalog.search_paths().shown(&file.path);
    clean(&match &file.state {
        FileState::Absent => format!("absent   {path} ({})", file.client),
        FileState::Read { servers } => {
            format!(
                "read     {path} ({}): {}",
                file.client,
                plural(*servers, "server")
            )
        }
        FileState::Ignored(why) => format!("ignored  {path}: {why}"),
        FileState::Failed(reason) => format!("failed   {path} ({}): {reason}", file.client),
    })
}

/// The catalog as JSON for programs.
pub(crate) fn json(catalog: &Catalog, book: &ToolBook) -> Value {
    json!({
        "ok": catalog.problems().iter().all(|problem| problem.severity != Severity::Error),
        "servers": catalog.entries().map(|known| server(book, known)).collect::<Vec<_>>(),
        "problems": catalog.problems().iter().map(problem_value).collect::<Vec<_>>(),
        "files": catalog.files().iter().map(file_value).collect::<Vec<_>>(),
        "outOfScope": OUT_OF_SCOPE,
    })
}

fn server(book: &ToolBook, known: &CatalogEntry) -> Value {
    let mut value =
        json!({"name": known.name.0, "alias": known.alias, "source": place(&known.source)});
    if let Some(description) = &known.description {
        value["description"] = json!(description);
    }
    if !known.passed_over.is_empty() {
        value["passedOver"] = known.passed_over.iter().map(place).collect();
    }
    match &known.outcome {
        Outcome::Ready(definition) => {
            value["status"] = json!("ready");
            value["transport"] = json!(definition.transport.kind());
            value["target"] = json!(definition.transport.shown());
            if let Some(list) = book.tools(definition) {
                value["tools"] = json!(list.tools.len());
            }
        }
        Outcome::Disabled => value["status"] = json!("disabled"),
        Outcome::Broken(reason) => {
            value["status"] = json!("broken");
            value["reason"] = json!(reason.to_string());
        }
    }
    value
}

fn place(source: &Source) -> Value {
    json!({"client": source.client, "file": source.path, "line": source.line, "column": source.column})
}

fn problem_value(problem: &Problem) -> Value {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let server = problem.server.as_ref().map(|name| name.0.as_str());
    json!({
        "severity": severity, "server": server, "file": problem.path, "line": problem.line, "column": problem.column,
        "reason": problem.reason.to_string(),
    })
}

fn file_value(file: &Considered) -> Value {
    let mut value = json!({"client": file.client, "file": file.path});
    match &file.state {
        FileState::Absent => value["state"] = json!("absent"),
        FileState::Read { servers } => {
            value["state"] = json!("read");
            value["servers"] = json!(servers);
        }
        FileState::Ignored(why) => {
            value["state"] = json!("ignored");
            value["reason"] = json!(why);
        }
        FileState::Failed(reason) => {
            value["state"] = json!("failed");
            value["reason"] = json!(reason.to_string());
        }
    }
    value
}

/// The results of a search, one tool per line.
pub(crate) fn findings_table(findings: &Findings) -> String {
    let calls: Vec<String> = findings
        .hits
        .iter()
        .map(|hit| {
            clean(&format!(
                "{}.{}",
                hit.server_alias,
                hit.tool().signature(hit.alias())
            ))
        })
        .collect();
    let widest = calls
        .iter()
        .map(|call| width(call))
        .max()
        .unwrap_or(0)
        .min(60);
    let mut text = String::new();
    for (hit, call) in findings.hits.iter().zip(calls) {
        let summary = hit.tool().summary().unwrap_or_default();
        let _ = writeln!(
            text,
            "{}",
            format!("{call:widest$}  {}", clean(&summary)).trim_end()
        );
    }
    if findings.hits.is_empty() {
        text.push_str("nothing found\n");
    }
    if !findings.not_started.is_empty() {
        let names: Vec<String> = findings
            .not_started
            .iter()
            .map(|name| clean(&name.0))
            .collect();
        let _ = writeln!(
            text,
            "never started, so their tools are not known: {}",
            names.join(", ")
        );
    }
    text
}

/// The results of a search as JSON for programs.
pub(crate) fn findings_json(findings: &Findings, detail: Detail) -> Value {
    json!({
        "tools": findings.hits.iter().map(|hit| hit.doc(detail)).collect::<Vec<_>>(),
        "notStarted": findings.not_started.iter().map(|name| name.0.as_str()).collect::<Vec<_>>(),
    })
}

/// The text without characters that move the cursor, colour the terminal or turn the line around.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                '\u{fffd}'
            }
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_catalog::{Platform, SearchPaths};
    use bridge_tools::Tool;

    #[test]
    fn report_shows_places_and_reasons_but_no_values() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "home/MCPs/own.json",
            r#"{"mcpServers": {
  "git-hub": {"command": "npx", "args": ["--token", "ghp_argument"], "env": {"A": "ghp_environment"}},
  "jira": {"url": "https://u:pass-word@jira.example.com/s/secret-path?key=query-key", "headers": {"X": "header-value"}},
  "bad": {"command": "x", "env": {"T": "${NOPE}"}},
  "off": {"command": "x", "disabled": true},
  "esc\u001b[31m": {"command": "x", "zzz": 1}
}}"#,
        );
        write(
            "home/.cursor/mcp.json",
            r#"{"mcpServers": {"git-hub": {"command": "x"}}}"#,
        );
        write("home/.gemini/settings.json", "{\n  oops");
        write("home/.claude/.mcp.json", "{}");
        let search_paths = SearchPaths::new(
            root.join("home"),
            root.join("project"),
            root.join("home/MCPs"),
            [].into(),
        );
        let catalog = Catalog::load(SearchPaths {
            platform: Platform::Linux,
            ..search_paths
        });
        let book = ToolBook::new(None);
        let tool = |name: &str, description: &str| Tool {
            name: name.to_owned(),
            title: None,
            description: Some(description.to_owned()),
            input_schema: json!({"properties": {"owner": {}, "body": {}}, "required": ["owner"]}),
            output_schema: None,
        };
        book.learn(
            catalog.definition("git-hub").unwrap(),
            vec![
                tool("create_issue", "Create an issue\u{1b}[2J"),
                tool("list-issues", "List issues"),
            ],
        );
        let findings = book.search(&catalog, "issue", 5);
        let text = format!(
            "{}\n{}\n\n{:#}\n{:#}",
            table(&catalog, &book),
            findings_table(&findings),
            json(&catalog, &book),
            findings_json(&findings, Detail::Summary),
        );
        for secret in [
            "ghp_",
            "pass-word",
            "secret-path",
            "query-key",
            "header-value",
        ] {
            assert!(!text.contains(secret), "{secret}");
        }
        assert!(!table(&catalog, &book).contains('\u{1b}'));
        insta::assert_snapshot!(text.replace(&root.display().to_string(), "/w"));
    }
}
