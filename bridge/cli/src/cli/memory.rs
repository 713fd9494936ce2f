//! `memory`: shows and deletes the values that code keeps for later sessions.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{exit, host, telemetry, terminal};
use crate::report::clean;
use bridge_settings::Settings;
use bridge_store::{Error, Info, Listing, Loaded, Memory, Timestamp};

/// Shows and deletes memories: values that code has saved with `save_memory`.
///
/// Exit code: 0 success, 1 no such key or it could not be read, 2 wrong usage.
#[derive(Debug, Args)]
pub(super) struct Memories {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all keys with size, time and session.
    List(List),
    /// Print the value of a key as JSON.
    Show(Show),
    /// Delete memories by their keys.
    Delete(Delete),
    /// Print all memories with their values as one JSON object.
    Export,
}

#[derive(Debug, Args)]
struct List {
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Show {
    /// Key of the memory.
    key: String,
    /// Print metadata, times and origin as well.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Delete {
    /// Keys of the memories.
    #[arg(required = true)]
    keys: Vec<String>,
}

impl Memories {
    pub(super) fn run(self, settings: &Settings) -> ExitCode {
        telemetry::start_quietly(settings);
        let store = host::store(settings);
        let memory = store.memory();
        let done = match self.command {
            Command::List(list) => memory.list().map(|listing| {
                let text = if list.json {
                    format!("{:#}\n", json!(listing))
                } else {
                    table(&listing)
                };
                print(&text)
            }),
            Command::Show(show) => memory.load(&show.key).map(|loaded| match loaded {
                Some(loaded) if show.json => print(&written(&Record::of(&loaded))),
                Some(loaded) => print(&written(&Written::of(&loaded))),
                None => missing(&show.key),
            }),
            Command::Delete(delete) => delete_all(memory, &delete.keys),
            Command::Export => export(memory).map(|text| print(&text)),
        };
        done.unwrap_or_else(|error| {
            terminal::say(&clean(&error.to_string()));
            exit::FAILED.into()
        })
    }
}

fn delete_all(memory: &Memory, keys: &[String]) -> Result<ExitCode, Error> {
    let mut code = ExitCode::SUCCESS;
    for key in keys {
        if memory.delete(key)?.is_none() {
            code = missing(key);
        }
    }
    Ok(code)
}

/// All memories with their values and metadata, as JSON.
fn export(memory: &Memory) -> Result<String, Error> {
    let mut all = Vec::new();
    for info in memory.list()?.memories {
        all.extend(memory.load(&info.key)?);
    }
    let memories = all.iter().map(Record::of).collect();
    Ok(written(&Export { memories }))
}

/// The object that `memory export` prints.
#[derive(Serialize)]
struct Export<'a> {
    memories: Vec<Record<'a>>,
}

/// One memory as its file holds it.
#[derive(Serialize)]
struct Record<'a> {
    key: &'a str,
    value: Written<'a>,
    metadata: &'a Value,
    created_at: &'a Value,
    updated_at: &'a Value,
    provenance: &'a Value,
}

/// A memory's value: parsed, or as its text where it is JSON that a `Value` cannot hold, such as a
/// lone surrogate.
#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    Parsed(Value),
    Text(&'a RawValue),
}

impl<'a> Record<'a> {
    fn of(loaded: &'a Loaded) -> Self {
        Self {
            key: &loaded.key,
            value: Written::of(loaded),
            metadata: &loaded.metadata,
            created_at: &loaded.created_at,
            updated_at: &loaded.updated_at,
            provenance: &loaded.provenance,
        }
    }
}

impl<'a> Written<'a> {
    fn of(loaded: &'a Loaded) -> Self {
        serde_json::from_str(loaded.value.get()).map_or(Self::Text(&loaded.value), Self::Parsed)
    }
}

fn written(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("{text}\n")
}

fn missing(key: &str) -> ExitCode {
    terminal::say(&format!(
        "no memory {:?}; `mcp-code-bridge memory list` shows all",
        clean(key)
    ));
    exit::FAILED.into()
}

fn print(text: &str) -> ExitCode {
    match terminal::out(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::say(&format!("cannot write: {error}"));
            exit::FAILED.into()
        }
    }
}

fn table(listing: &Listing) -> String {
    let mut text = String::new();
    let rows: Vec<[String; 4]> = listing.memories.iter().map(row).collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let (key, size) = (width(0), width(1));
    for [name, bytes, time, session] in &rows {
        let _ = writeln!(text, "{name:key$}  {bytes:>size$}  {time}  {session}");
    }
    for file in &listing.set_aside {
        let _ = writeln!(text, "unreadable and set aside: {}", clean(file));
    }
    if text.is_empty() {
        text.push_str("no memories\n");
    }
    text
}

fn row(info: &Info) -> [String; 4] {
    let time = info.updated_at.as_f64().map(Timestamp::from_epoch);
    let session = info.provenance["session"].as_str().unwrap_or("");
    [
        clean(&info.key),
        bridge_common::human::size(info.size),
        time.map(|time| time.to_string()).unwrap_or_default(),
        clean(session),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        memories: Memories,
    }

    #[test]
    fn wrong_usage_is_rejected() {
        let parse = |words: &[&str]| Line::try_parse_from([&["memory"], words].concat());
        for right in [
            &["list"][..],
            &["list", "--json"],
            &["show", "a b"],
            &["delete", "a", "b"],
            &["export"],
        ] {
            assert!(parse(right).is_ok(), "{right:?}");
        }
        for wrong in [
            &[][..],
            &["show"],
            &["delete"],
            &["export", "x"],
            &["list", "x"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn table_has_no_control_characters() {
        let info = |key: &str| Info {
            key: key.to_owned(),
            metadata: json!({}),
            created_at: json!(1.0),
            updated_at: json!(1_800_000_000.5),
            provenance: json!({"session": "default", "run": 1}),
            size: 2_000,
        };
        let listing = Listing {
            memories: vec![info("notes"), info("red\u{1b}[31m\nline")],
            set_aside: vec!["x.json.corrupt-1".to_owned()],
        };
        insta::assert_snapshot!(table(&listing));
    }
}
