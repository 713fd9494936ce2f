//! `servers`: which MCP servers are known and from which files, whether they start, and which tools they have.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{block_on, exit, signals, telemetry, terminal};
use crate::catalog::{
    Catalog, Definition, Detail, Outcome, Places, Tool, ToolBook, ToolCache, report,
};
use crate::settings::{Settings, parse_duration};
use crate::upstream::{self, CallContext, ToolList, Upstreams};

/// Servers started at once by `check`.
const PARALLEL: usize = 8;

/// Shows the MCP servers that Python can use: those of every client on this machine.
#[derive(Debug, Args)]
pub(super) struct Servers {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every server, every file considered, which definition won, and what is wrong.
    List(List),
    /// Start servers and see whether they list their tools.
    ///
    /// Exit code: 0 all of them work, 1 one does not or a definition is wrong, 2 wrong usage.
    Check(Check),
    /// Search the tools of all servers.
    ///
    /// Servers that were never started are named; `servers check` makes their tools known.
    /// Exit code: 0 something was found, 1 nothing.
    Search(Search),
}

#[derive(Debug, Args)]
struct List {
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Check {
    /// Only these servers.
    names: Vec<String>,
    /// Time limit for each, such as 30, 30s or 2m; without it their own limits hold.
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Search {
    /// What to look for, in words.
    #[arg(required = true)]
    query: Vec<String>,
    /// Most tools to show.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Whole descriptions and the schemas of arguments, in JSON.
    #[arg(long, requires = "json")]
    full: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "accepted: whole seconds such as 30, 30s or 2m".to_owned())
}

impl Servers {
    pub(super) fn run(self, settings: &Settings) -> ExitCode {
        telemetry::start_quietly(settings.log_level);
        let catalog = match places(settings) {
            Ok(places) => Catalog::load(places),
            Err(problem) => {
                terminal::say(&problem);
                return exit::FAILED.into();
            }
        };
        let book = ToolBook::new(cache(settings));
        match self.command {
            Command::List(list) => {
                let text = match list.json {
                    true => format!("{:#}\n", report::json(&catalog, &book)),
                    false => report::table(&catalog, &book),
                };
                print(&text, true)
            }
            Command::Search(search) => {
                let findings = book.search(&catalog, &search.query.join(" "), search.limit.into());
                let detail = if search.full {
                    Detail::Full
                } else {
                    Detail::Summary
                };
                let text = match search.json {
                    true => format!("{:#}\n", report::findings_json(&findings, detail)),
                    false => report::findings_table(&findings),
                };
                print(&text, !findings.hits.is_empty())
            }
            Command::Check(check) => check.run(&catalog, &book),
        }
    }
}

/// Prints, and says how it went.
fn print(text: &str, well: bool) -> ExitCode {
    match terminal::out(text.as_bytes()) {
        Ok(()) if well => ExitCode::SUCCESS,
        Ok(()) => exit::FAILED.into(),
        Err(error) => {
            terminal::say(&format!("cannot write: {error}"));
            exit::FAILED.into()
        }
    }
}

/// Where servers are defined for this process.
pub(super) fn places(settings: &Settings) -> Result<Places, String> {
    let cwd = std::env::current_dir()
        .map_err(|error| format!("the working directory cannot be found: {error}"))?;
    let home = settings
        .surroundings
        .home
        .clone()
        .ok_or("there is no home folder: HOME is not set")?;
    Ok(Places {
        extra: settings.servers_config.clone(),
        allow_self: settings.allow_self_server,
        executable: std::env::current_exe().ok(),
        ..Places::new(home, cwd, settings.state_dir.clone(), environment())
    })
}

/// The process's variables; those that are no text can be meant by no definition.
pub(super) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Where tool lists are kept.
pub(super) fn cache(settings: &Settings) -> Option<ToolCache> {
    let folder: PathBuf = settings
        .surroundings
        .cache_home
        .as_ref()?
        .join("mcp-code-bridge");
    Some(ToolCache::below(&folder))
}

/// The command that outlives a killed bridge for a moment.
pub(super) fn watchdog(places: &Places) -> Option<Vec<String>> {
    let program = places.executable.as_ref()?.to_str()?.to_owned();
    Some(vec![program, upstream::watchdog::SUBCOMMAND.to_owned()])
}

/// How one server did.
struct Checked {
    name: String,
    place: String,
    took: Duration,
    result: Result<Arc<ToolList>, String>,
}

impl Check {
    fn run(&self, catalog: &Catalog, book: &ToolBook) -> ExitCode {
        let mut definitions: Vec<Arc<Definition>> = Vec::new();
        for name in &self.names {
            match catalog.definition(name) {
                Ok(definition) => definitions.push(Arc::clone(definition)),
                Err(error) => {
                    terminal::say(&report::clean(&error.to_string()));
                    return exit::USAGE.into();
                }
            }
        }
        if self.names.is_empty() {
            definitions.extend(catalog.definitions().map(Arc::clone));
        }
        let checked = match block_on(self.start(catalog, book, definitions)) {
            Ok(Ok(checked)) => checked,
            Ok(Err(code)) | Err(code) => return code,
        };
        let broken: Vec<_> = if self.names.is_empty() {
            broken(catalog)
        } else {
            Vec::new()
        };
        let well = broken.is_empty() && checked.iter().all(|one| one.result.is_ok());
        let text = if self.json {
            format!(
                "{:#}\n",
                json!({"ok": well, "servers": checked.iter().map(value).chain(broken.iter().map(broken_value)).collect::<Vec<_>>()})
            )
        } else {
            let mut text = String::new();
            checked.iter().for_each(|one| line(one, &mut text));
            for (name, place, reason) in &broken {
                let _ = writeln!(
                    text,
                    "{}",
                    report::clean(&format!("broken  {name}  {place}: {reason}"))
                );
            }
            if text.is_empty() {
                text.push_str("no servers are defined\n");
            }
            text
        };
        print(&text, well)
    }

    /// Starts every server, some at a time, and ends them all again.
    async fn start(
        &self,
        catalog: &Catalog,
        book: &ToolBook,
        definitions: Vec<Arc<Definition>>,
    ) -> Result<Vec<Checked>, ExitCode> {
        let context = CallContext::default();
        let received = signals::cancel_on_signal(context.cancel.clone()).map_err(|error| {
            terminal::say(&format!("cannot listen for signals: {error}"));
            ExitCode::from(exit::FAILED)
        })?;
        let upstreams = Upstreams::new(upstream::Options {
            environment: catalog.places().environment.clone(),
            cwd: catalog.places().cwd.clone(),
            watchdog: watchdog(catalog.places()),
            ..upstream::Options::default()
        });
        let checked = stream::iter(definitions)
            .map(|definition| {
                let deadline = self
                    .timeout
                    .map(|limit| tokio::time::Instant::now() + limit);
                let context = CallContext {
                    deadline,
                    ..context.clone()
                };
                let upstreams = &upstreams;
                async move {
                    let started = Instant::now();
                    let result = upstreams.tools(&definition, &context).await;
                    if let Ok(list) = &result {
                        book.learn(&definition, list.tools.iter().map(known).collect());
                    }
                    Checked {
                        name: definition.name.0.clone(),
                        place: catalog.place(&definition.source),
                        took: started.elapsed(),
                        result: result.map_err(|error| error.to_string()),
                    }
                }
            })
            .buffered(PARALLEL)
            .collect()
            .await;
        upstreams.shutdown().await;
        received
            .exit_code()
            .map_or(Ok(checked), |code| Err(code.into()))
    }
}

/// A tool as the catalog keeps it.
fn known(tool: &upstream::Tool) -> Tool {
    Tool {
        name: tool.name.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
    }
}

fn broken(catalog: &Catalog) -> Vec<(String, String, String)> {
    let reason = |outcome: &Outcome| match outcome {
        Outcome::Broken(reason) => Some(reason.to_string()),
        _ => None,
    };
    catalog
        .entries()
        .filter_map(|known| {
            Some((
                known.name.0.clone(),
                catalog.place(&known.source),
                reason(&known.outcome)?,
            ))
        })
        .collect()
}

fn line(checked: &Checked, text: &mut String) {
    let Checked {
        name,
        place,
        took,
        result,
    } = checked;
    let seconds = took.as_secs_f32();
    match result {
        Ok(list) => {
            let _ = writeln!(
                text,
                "{}",
                report::clean(&format!(
                    "ok      {name}  {} in {seconds:.1} s",
                    report::number(list.tools.len(), "tool")
                ))
            );
            for (tool, reason) in &list.skipped {
                let _ = writeln!(
                    text,
                    "        {}",
                    report::clean(&format!("left out {tool}: {reason}"))
                );
            }
            if let Some(reason) = &list.incomplete {
                let _ = writeln!(
                    text,
                    "        {}",
                    report::clean(&format!("not the whole list: {reason}"))
                );
            }
        }
        Err(error) => {
            let mut lines = error.lines();
            let first = lines.next().unwrap_or_default();
            let _ = writeln!(
                text,
                "{}",
                report::clean(&format!("failed  {name}  {place}: {first}"))
            );
            for line in lines {
                let _ = writeln!(text, "        {}", report::clean(line));
            }
        }
    }
}

fn value(checked: &Checked) -> Value {
    let mut value = json!({"name": checked.name, "place": checked.place, "seconds": (checked.took.as_secs_f64() * 1000.0).round() / 1000.0});
    match &checked.result {
        Ok(list) => {
            value["status"] = json!("ok");
            value["tools"] = json!(list.tools.len());
            if !list.skipped.is_empty() {
                value["leftOut"] = json!(list.skipped);
            }
            if let Some(reason) = &list.incomplete {
                value["incomplete"] = json!(reason);
            }
        }
        Err(error) => {
            value["status"] = json!("failed");
            value["error"] = json!(error);
        }
    }
    value
}

fn broken_value((name, place, reason): &(String, String, String)) -> Value {
    json!({"name": name, "place": place, "status": "broken", "error": reason})
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        servers: Servers,
    }

    #[test]
    fn wrong_usage_is_refused() {
        let parse = |words: &[&str]| Line::try_parse_from([&["servers"], words].concat());
        for right in [
            &["list"][..],
            &["list", "--json"],
            &["check", "a", "b", "--timeout", "30s"],
            &["search", "open", "issue", "--json", "--full"],
        ] {
            assert!(parse(right).is_ok(), "{right:?}");
        }
        for wrong in [
            &[][..],
            &["search"],
            &["search", "x", "--limit", "0"],
            &["search", "x", "--full"],
            &["check", "--timeout", "soon"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_failed_server_is_shown_with_its_place_and_without_control_characters() {
        let checked = [
            Checked {
                name: "good".to_owned(),
                place: "~/a.json:1:2".to_owned(),
                took: Duration::from_millis(1234),
                result: Ok(Arc::new(ToolList {
                    skipped: BTreeMap::from([("entry 2".to_owned(), "has no name".to_owned())]),
                    incomplete: Some("the server gives the same page again and again".to_owned()),
                    ..ToolList::default()
                })),
            },
            Checked {
                name: "bad\u{1b}[31m".to_owned(),
                place: "~/a.json:3:4".to_owned(),
                took: Duration::from_millis(50),
                result: Err("exited with code 1 after 0.1 s\nstderr: \u{1b}[2Jno".to_owned()),
            },
        ];
        let mut text = String::new();
        checked.iter().for_each(|one| line(one, &mut text));
        assert!(!text.contains('\u{1b}'));
        let values: Vec<Value> = checked.iter().map(value).collect();
        insta::assert_snapshot!(format!("{text}\n{:#}", Value::from(values)));
    }
}
