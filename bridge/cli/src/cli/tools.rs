//! `tools`: shows and deletes the functions that code has saved, so that people can read them
//! before they trust them.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{exit, host, telemetry, terminal};
use crate::report::clean;
use bridge_settings::Settings;
use bridge_store::SavedTool;

/// Shows and deletes saved tools: functions that every session can call.
///
/// They are in `user_tools.py`, which may be edited. Exit code: 0 success, 1 no such tool or the
/// file cannot be read, 2 wrong usage.
#[derive(Debug, Args)]
pub(super) struct SavedTools {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all saved tools with signature, time and session.
    List(List),
    /// Print the source of a tool.
    Show {
        /// Name of the tool.
        name: String,
    },
    /// Delete tools; their last version is kept.
    Delete {
        /// Names of the tools.
        #[arg(required = true)]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct List {
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

impl SavedTools {
    pub(super) fn run(self, settings: &Settings) -> ExitCode {
        telemetry::start_quietly(settings);
        let store = host::store(settings);
        let tools = store.tools();
        let mut missing = Vec::new();
        let text = match self.command {
            Command::List(list) => tools.list().map(|(tools, problems)| {
                if list.json {
                    format!("{:#}\n", json!({"tools": tools, "problems": problems}))
                } else {
                    table(&tools, &problems)
                }
            }),
            Command::Show { name } => tools.source(&name).map(|source| {
                source.unwrap_or_else(|| {
                    missing.push(name);
                    String::new()
                })
            }),
            Command::Delete { names } => names
                .into_iter()
                .try_for_each(|name| {
                    if !tools.delete(&name)? {
                        missing.push(name);
                    }
                    Ok(())
                })
                .map(|()| String::new()),
        };
        for name in &missing {
            terminal::say(&format!(
                "no saved tool {:?}; `mcp-code-bridge tools list` shows all",
                clean(name)
            ));
        }
        match text {
            Ok(text) => match terminal::out(text.as_bytes()) {
                Ok(()) if missing.is_empty() => ExitCode::SUCCESS,
                _ => exit::FAILED.into(),
            },
            Err(error) => {
                terminal::say(&clean(&error.to_string()));
                exit::FAILED.into()
            }
        }
    }
}

fn table(tools: &[SavedTool], problems: &[String]) -> String {
    let mut text = String::new();
    let width = tools
        .iter()
        .map(|tool| tool.signature.chars().count())
        .max()
        .unwrap_or(0)
        .min(60);
    for tool in tools {
        let versions = match tool.versions {
            0 => String::new(),
            more => format!("  {more} older"),
        };
        let (signature, session) = (clean(&tool.signature), clean(&tool.session));
        let _ = writeln!(
            text,
            "{signature:width$}  {}  {session}{versions}",
            clean(&tool.saved)
        );
    }
    for problem in problems {
        let _ = writeln!(text, "{}", clean(problem));
    }
    if text.is_empty() {
        text.push_str("no saved tools\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_signatures_without_control_characters() {
        let tool = |signature: &str, versions| SavedTool {
            name: "f".to_owned(),
            signature: signature.to_owned(),
            saved: "2026-11-29T21:57:00Z".to_owned(),
            session: "default".to_owned(),
            versions,
            size: 20,
        };
        let tools = [
            tool("def f(x)", 0),
            tool("async def longer(x, *, y='\u{1b}[2J')", 3),
        ];
        insta::assert_snapshot!(table(
            &tools,
            &["user_tools.py: the tool g has no end".to_owned()]
        ));
    }
}
