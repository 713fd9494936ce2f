//! `servers check`: starts servers and checks that they list their tools, which the search then
//! knows.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::super::time::time;
use super::super::{block_on, exit, signals, terminal};
use super::print;
use crate::report;
use bridge_catalog::{Catalog, Definition, Outcome};
use bridge_common::human::plural;
use bridge_tools::ToolBook;
use bridge_upstream::{CallContext, Options, ToolList, Upstreams};

/// Servers started at once.
const PARALLEL: usize = 8;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Servers to check; all of them by default.
    names: Vec<String>,
    /// Time limit for each server, such as 30, 30s or 2m; by default each server's own limit
    /// applies.
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// The result of starting one server.
struct Checked {
    name: String,
    place: String,
    took: Duration,
    result: Result<Arc<ToolList>, String>,
}

impl Check {
    pub(super) fn run(&self, catalog: &Catalog, book: &ToolBook, options: Options) -> ExitCode {
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
        let checked = match block_on(self.start(catalog, book, definitions, options)) {
            Ok(Ok(checked)) => checked,
            Ok(Err(code)) | Err(code) => return code,
        };
        let broken: Vec<_> = if self.names.is_empty() {
            broken(catalog)
        } else {
            Vec::new()
        };
        let is_success = broken.is_empty() && checked.iter().all(|one| one.result.is_ok());
        let text = if self.json {
            format!(
                "{:#}\n",
                json!({"ok": is_success, "servers": checked.iter().map(value).chain(broken.iter().map(broken_value)).collect::<Vec<_>>()})
            )
        } else {
            let mut text = String::new();
            for one in &checked {
                line(one, &mut text);
            }
            for (name, place, reason) in &broken {
                let _ = writeln!(
                    text,
                    "{}",
                    report::clean(&format!("broken  {name}  {place}: {reason}"))
                );
            }
            if text.is_empty() {
                text.push_str("no servers defined\n");
            }
            text
        };
        print(&text, is_success)
    }

    /// Starts every server, a few at a time, and then ends them all.
    async fn start(
        &self,
        catalog: &Catalog,
        book: &ToolBook,
        definitions: Vec<Arc<Definition>>,
        options: Options,
    ) -> Result<Vec<Checked>, ExitCode> {
        let context = CallContext::default();
        let received = signals::cancel_on_signal(context.cancel.clone()).map_err(|error| {
            terminal::say(&format!("cannot listen for signals: {error}"));
            ExitCode::from(exit::FAILED)
        })?;
        let upstreams = Upstreams::new(options);
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
                        book.learn(&definition, list.tools.clone());
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
                    plural(list.tools.len(), "tool")
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
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn failed_server_is_shown_with_its_place_and_without_control_characters() {
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
        for one in &checked {
            line(one, &mut text);
        }
        assert!(!text.contains('\u{1b}'));
        let values: Vec<Value> = checked.iter().map(value).collect();
        insta::assert_snapshot!(format!("{text}\n{:#}", Value::from(values)));
    }
}
