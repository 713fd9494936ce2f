//! One entry of a definition file, read by the table in `fields`, expanded and checked.
//!
//! All problems of an entry are collected, so that one look at the report is enough to fix it.

mod http;
mod limits;
mod stdio;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use self::http::http;
use self::limits::{Unit, time, timeouts, tool_names};
use self::stdio::stdio;
use super::definition::{SHORTEST_SECRET, ToolFilter, Transport};
use super::document::{Node, Value};
use super::expand::{Found, Variables};
use super::fields::{self, Field, Kind};
use super::identity::Identity;
use super::problem::{Reason, Severity};
use super::read::Fingerprint;

/// What reading an entry needs to know.
pub(super) struct Context<'a> {
    pub(super) variables: Variables<'a>,
    pub(super) identity: Identity<'a>,
    pub(super) search_path: &'a str,
    pub(super) allow_self: bool,
    /// Environment files looked at, so that their changes are noticed.
    pub(super) watched: Vec<(PathBuf, Option<Fingerprint>)>,
}

/// An entry that was read, as far as it could be.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) disabled: bool,
    pub(super) description: Option<String>,
    pub(super) transport: Option<Transport>,
    pub(super) start_timeout: Option<Duration>,
    pub(super) call_timeout: Option<Duration>,
    pub(super) tools: ToolFilter,
    pub(super) secrets: Vec<SecretString>,
    /// In the order of the file: where, how bad, what.
    pub(super) findings: Vec<(usize, Severity, Reason)>,
}

impl Entry {
    fn error(&mut self, at: usize, reason: Reason) {
        self.findings.push((at, Severity::Error, reason));
    }

    fn warn(&mut self, at: usize, reason: Reason) {
        self.findings.push((at, Severity::Warning, reason));
    }

    fn secret(&mut self, value: &str) {
        let value = value.trim();
        let known = self
            .secrets
            .iter()
            .any(|secret| secret.expose_secret() == value);
        if value.len() >= SHORTEST_SECRET && !known {
            self.secrets.push(value.into());
        }
    }

    /// The first problem that makes the entry unusable.
    pub(super) fn failure(&self) -> Option<&Reason> {
        self.findings
            .iter()
            .find(|(_, severity, _)| *severity == Severity::Error)
            .map(|(_, _, reason)| reason)
    }
}

/// The fields of an entry by their meaning.
#[derive(Default)]
struct Raw<'n> {
    command: Option<&'n Node>,
    arguments: Option<&'n Node>,
    environments: Vec<&'n Node>,
    forwarded: Option<&'n Node>,
    env_file: Option<&'n Node>,
    directory: Option<&'n Node>,
    address: Option<&'n Node>,
    kind: Option<&'n Node>,
    headers: Vec<&'n Node>,
    header_variables: Option<&'n Node>,
    bearer_variable: Option<&'n Node>,
    bearer: Option<&'n Node>,
    enabled: Option<&'n Node>,
    disabled: Option<&'n Node>,
}

/// Reads one entry.
pub(super) fn read(node: &Node, context: &mut Context<'_>) -> Entry {
    let mut entry = Entry::default();
    let mut raw = Raw::default();
    sort(node, "the definition", context, &mut raw, &mut entry);
    entry.disabled = is_disabled(&raw, &mut entry);
    if entry.disabled {
        return entry;
    }
    entry.transport = transport(node, &raw, context, &mut entry);
    entry
}

/// Puts each field into its slot. Objects that hold fields of their own (Zed's `command`, a `transport`) are sorted
/// like the entry itself.
fn sort<'n>(
    node: &'n Node,
    what: &str,
    context: &Context<'_>,
    raw: &mut Raw<'n>,
    entry: &mut Entry,
) {
    let Some(fields) = node.fields() else {
        return entry.error(node.at, wrong_type(what, "an object", node));
    };
    let mut seen = BTreeSet::new();
    for field in fields {
        let (key, at, value) = (field.key.as_str(), field.key_at, &field.node);
        if !seen.insert(key) {
            entry.warn(at, Reason::DuplicateKey(key.to_owned()));
        }
        let Some(meaning) = fields::meaning(key) else {
            let closest = fields::closest(key).map(str::to_owned);
            entry.warn(
                at,
                Reason::UnknownKey {
                    key: key.chars().take(60).collect(),
                    closest,
                },
            );
            continue;
        };
        if value.value == Value::Null {
            continue;
        }
        match meaning {
            Field::Command => match &value.value {
                Value::Map(_) => sort_command(value, raw, entry),
                _ => raw.command = Some(value),
            },
            Field::Arguments => raw.arguments = Some(value),
            Field::Environment => raw.environments.push(value),
            Field::Forwarded => raw.forwarded = Some(value),
            Field::EnvFile => raw.env_file = Some(value),
            Field::Directory => raw.directory = Some(value),
            // If there are two addresses, the more specific name counts, not `url` or `uri`.
            Field::Address if key.len() > 3 || raw.address.is_none() => raw.address = Some(value),
            Field::Kind => raw.kind = Some(value),
            Field::Transport => match &value.value {
                Value::Map(_) if what == "the definition" => {
                    sort(value, "\"transport\"", context, raw, entry);
                }
                _ => raw.kind = Some(value),
            },
            Field::Headers => raw.headers.push(value),
            Field::HeaderVariables => raw.header_variables = Some(value),
            Field::BearerVariable => raw.bearer_variable = Some(value),
            Field::Bearer => raw.bearer = Some(value),
            Field::RequestInit => raw.headers.extend(value.get("headers")),
            Field::Enabled => raw.enabled = Some(value),
            Field::Disabled => raw.disabled = Some(value),
            Field::Description => match value.text().map(str::trim) {
                Some("") => {}
                Some(text) => entry.description = Some(text.chars().take(2000).collect()),
                None => entry.warn(at, wrong_type("\"description\"", "a text", value)),
            },
            Field::Timeout => timeouts(value, context.variables.dialect.timeout, entry),
            Field::StartSeconds => entry.start_timeout = time(value, key, Unit::Seconds, entry),
            Field::StartMilliseconds => {
                entry.start_timeout = time(value, key, Unit::Milliseconds, entry);
            }
            Field::CallSeconds => entry.call_timeout = time(value, key, Unit::Seconds, entry),
            Field::CallMilliseconds => {
                entry.call_timeout = time(value, key, Unit::Milliseconds, entry);
            }
            Field::OnlyTools => entry.tools.only = tool_names(value, key, entry),
            Field::ExceptTools => {
                entry.tools.except = tool_names(value, key, entry).unwrap_or_default();
            }
            Field::Unsupported => entry.warn(at, Reason::UnsupportedKey(key.to_owned())),
            Field::Ignored | Field::Address => {}
        }
    }
}

/// Zed's older form: `"command": {"path": ..., "args": [...], "env": {...}}`.
fn sort_command<'n>(node: &'n Node, raw: &mut Raw<'n>, entry: &mut Entry) {
    for field in node.fields().unwrap_or_default() {
        match field.key.as_str() {
            "path" | "command" => raw.command = Some(&field.node),
            "args" => raw.arguments = Some(&field.node),
            "env" if field.node.value != Value::Null => raw.environments.push(&field.node),
            "env" => {}
            key => entry.warn(
                field.key_at,
                Reason::UnknownKey {
                    key: key.to_owned(),
                    closest: None,
                },
            ),
        }
    }
}

fn is_disabled(raw: &Raw<'_>, entry: &mut Entry) -> bool {
    let mut flag = |node: Option<&Node>, name: &str| {
        let node = node?;
        match &node.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => {
                entry.error(node.at, wrong_type(name, "true or false", node));
                None
            }
        }
    };
    let (enabled, disabled) = (
        flag(raw.enabled, "\"enabled\""),
        flag(raw.disabled, "\"disabled\""),
    );
    if let (Some(enabled), Some(disabled), Some(node)) = (enabled, disabled, raw.disabled)
        && enabled == disabled
    {
        entry.warn(node.at, Reason::EnabledAndDisabled);
        return true;
    }
    disabled == Some(true) || enabled == Some(false)
}

fn transport(
    node: &Node,
    raw: &Raw<'_>,
    context: &mut Context<'_>,
    entry: &mut Entry,
) -> Option<Transport> {
    let kind = match raw.kind {
        None => None,
        Some(node) => {
            let Some(text) = node.text() else {
                entry.error(node.at, wrong_type("\"type\"", "a text", node));
                return None;
            };
            match fields::kind(text) {
                Some(Kind::LegacySse) => {
                    entry.error(node.at, Reason::LegacySse);
                    return None;
                }
                Some(Kind::WebSocket) => {
                    entry.error(node.at, Reason::WebSocket);
                    return None;
                }
                Some(kind) => Some((kind, text)),
                None => {
                    entry.error(
                        node.at,
                        Reason::UnknownType(text.chars().take(40).collect()),
                    );
                    return None;
                }
            }
        }
    };
    match (kind, raw.command, raw.address) {
        (None, None, None) if context.variables.dialect.extensions => {
            entry.warn(node.at, Reason::ExtensionServer);
            None
        }
        (None, None, None) => {
            if entry.failure().is_none() {
                entry.error(node.at, Reason::NoTransport);
            }
            None
        }
        (Some((Kind::Http, text)), _, None) => {
            entry.error(node.at, Reason::TypeNeeds(text.to_owned(), "url"));
            None
        }
        (Some((Kind::Stdio, text)), None, _) => {
            entry.error(node.at, Reason::TypeNeeds(text.to_owned(), "command"));
            None
        }
        (Some((Kind::Http, _)), command, Some(address)) => {
            if let Some(command) = command {
                entry.warn(command.at, Reason::TwoTransports("url"));
            }
            http(address, raw, context, entry)
        }
        (None, None, Some(address)) => http(address, raw, context, entry),
        (_, Some(program), address) => {
            if let Some(address) = address {
                entry.warn(address.at, Reason::TwoTransports("command"));
            }
            stdio(program, raw, context, entry)
        }
        // The other kinds have returned above.
        (Some(_), None, _) => None,
    }
}

/// Expands a text; problems go to the entry.
fn expanded(
    node: &Node,
    text: &str,
    field: &str,
    context: &Context<'_>,
    entry: &mut Entry,
) -> Option<String> {
    let mut found = Found::default();
    let result = context.variables.expand(text, field, &mut found);
    found
        .warnings
        .into_iter()
        .for_each(|warning| entry.warn(node.at, warning));
    found.secrets.iter().for_each(|secret| entry.secret(secret));
    match result {
        Ok(text) if text.contains('\0') => {
            entry.error(node.at, Reason::Nul(field.to_owned()));
            None
        }
        Ok(text) => Some(text),
        Err(reason) => {
            entry.error(node.at, reason);
            None
        }
    }
}

/// The fields of an object of names and values.
fn pairs<'n>(node: &'n Node, what: &str, entry: &mut Entry) -> Vec<(&'n str, &'n Node)> {
    let Some(fields) = node.fields() else {
        entry.error(node.at, wrong_type(what, "an object", node));
        return Vec::new();
    };
    fields
        .iter()
        .map(|field| (field.key.as_str(), &field.node))
        .collect()
}

/// A text, number or truth value as text, expanded.
fn scalar(node: &Node, field: &str, context: &Context<'_>, entry: &mut Entry) -> Option<String> {
    match &node.value {
        Value::Text(text) => expanded(node, text, field, context, entry),
        Value::Number(number) => Some(number.clone()),
        Value::Bool(value) => Some(value.to_string()),
        _ => {
            entry.error(node.at, wrong_type(field, "a text", node));
            None
        }
    }
}

fn wrong_type(what: &str, expected: &'static str, node: &Node) -> Reason {
    Reason::WrongType {
        what: what.to_owned(),
        expected,
        found: node.kind(),
    }
}

/// Whether a server may have this name.
pub(super) fn check_name(name: &str) -> Result<(), Reason> {
    const LONGEST: usize = 200;
    if name.trim().is_empty() {
        return Err(Reason::NoName);
    }
    if name.len() > LONGEST {
        return Err(Reason::LongName(LONGEST));
    }
    if name.contains('\0') {
        return Err(Reason::Nul("the name".to_owned()));
    }
    Ok(())
}
