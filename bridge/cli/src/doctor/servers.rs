//! The check of MCP server definitions (S0). No server is started; a bad definition does not affect
//! the sandbox.

use std::fmt::Write as _;

use super::{Check, Outcome};
use crate::report;
use bridge_catalog::{Catalog, FileState, Outcome as Of};
use bridge_common::human::plural;

/// How many problems are shown; `servers list` shows all.
const SHOWN: usize = 5;

const EXPECTED: &str = "valid definitions";

/// How many servers are defined and what is wrong with them, or why the catalog is missing.
pub(super) fn examine(catalog: Result<&Catalog, &str>) -> Check {
    let catalog = match catalog {
        Ok(catalog) => catalog,
        Err(problem) => {
            return Check::ok("servers", "S0", problem, EXPECTED)
                .but(Outcome::Warn, "fix this; until then no MCP server is known");
        }
    };
    let count = |wanted: fn(&Of) -> bool| {
        catalog
            .entries()
            .filter(|known| wanted(&known.outcome))
            .count()
    };
    let files = catalog.files().iter();
    let files = files
        .filter(|file| matches!(file.state, FileState::Read { .. }))
        .count();
    let mut found = match catalog.entries().count() {
        0 => "none defined".to_owned(),
        all => format!("{all} defined in {}", plural(files, "file")),
    };
    for (count, word) in [
        (count(|outcome| matches!(outcome, Of::Disabled)), "disabled"),
        (count(|outcome| matches!(outcome, Of::Broken(_))), "broken"),
    ] {
        if count > 0 {
            let _ = write!(found, ", {count} {word}");
        }
    }
    let problems = catalog.problems();
    if problems.is_empty() {
        return Check::ok("servers", "S0", found, EXPECTED);
    }
    for problem in problems.iter().take(SHOWN) {
        found.push('\n');
        found.push_str(&report::problem_line(catalog, problem));
    }
    if problems.len() > SHOWN {
        let _ = write!(found, "\nand {} more", problems.len() - SHOWN);
    }
    Check::ok("servers", "S0", found, EXPECTED).but(
        Outcome::Warn,
        "correct these definitions; `mcp-code-bridge servers list` shows every file, `servers check` starts them",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use bridge_catalog::SearchPaths;

    fn check(home: &Path, definitions: &str) -> Check {
        let file = home.join("servers.json");
        std::fs::write(&file, definitions).expect("written");
        let search_paths = SearchPaths {
            extra: Some(file),
            ..SearchPaths::new(
                home.into(),
                home.into(),
                home.join("state"),
                BTreeMap::new(),
            )
        };
        examine(Ok(&Catalog::load(search_paths)))
    }

    #[test]
    fn definitions_are_counted_and_their_problems_named() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let good = check(
            home.path(),
            r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b", "disabled": true}}}"#,
        );
        assert_eq!(
            (good.outcome, good.found.as_str()),
            (Outcome::Ok, "2 defined in 1 file, 1 disabled")
        );

        let bad = check(
            home.path(),
            r#"{"mcpServers": {"a": {"command": "a", "env": {"T": "${NOPE}"}}, "b": {}}}"#,
        );
        assert_eq!((bad.outcome, bad.code), (Outcome::Warn, "S0"));
        let lines: Vec<&str> = bad.found.lines().collect();
        assert_eq!(lines[0], "2 defined in 1 file, 2 broken");
        assert!(
            lines[1].contains("servers.json:1:") && bad.found.contains("NOPE"),
            "{}",
            bad.found
        );

        let none = check(home.path(), "{}");
        assert_eq!(
            (none.outcome, none.found.as_str()),
            (Outcome::Ok, "none defined")
        );
        assert_eq!(
            examine(Err("no home folder: HOME is not set")).outcome,
            Outcome::Warn
        );
    }
}
