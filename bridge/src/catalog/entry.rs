//! One entry of a definition file, read by the table in `fields`, expanded and checked.
//!
//! Everything wrong with an entry is collected, so that one look at the report is enough to mend it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

use super::definition::{SHORTEST_SECRET, ToolFilter, Transport};
use super::dialect::Timeout;
use super::document::{Node, Value};
use super::expand::{Found, Variables};
use super::fields::{self, Field, Kind};
use super::identity::Identity;
use super::problem::{Reason, Severity};
use super::read::Fingerprint;
use super::{command, depth, env_file, read};

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
        if value.len() >= SHORTEST_SECRET {
            self.secrets.push(value.into());
        }
    }

    /// The first finding that costs the entry.
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

/// Puts each field where it belongs. Objects that hold fields of their own (Zed's `command`, a `transport`) are
/// sorted like the entry itself.
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
            // Where there are two, the more telling name counts.
            Field::Address if key != "url" || raw.address.is_none() => raw.address = Some(value),
            Field::Kind => raw.kind = Some(value),
            Field::Transport => match &value.value {
                Value::Map(_) if what == "the definition" => {
                    sort(value, "\"transport\"", context, raw, entry)
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
                entry.start_timeout = time(value, key, Unit::Milliseconds, entry)
            }
            Field::CallSeconds => entry.call_timeout = time(value, key, Unit::Seconds, entry),
            Field::CallMilliseconds => {
                entry.call_timeout = time(value, key, Unit::Milliseconds, entry)
            }
            Field::OnlyTools => entry.tools.only = tool_names(value, key, entry),
            Field::ExceptTools => {
                entry.tools.except = tool_names(value, key, entry).unwrap_or_default()
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

fn stdio(
    program: &Node,
    raw: &Raw<'_>,
    context: &mut Context<'_>,
    entry: &mut Entry,
) -> Option<Transport> {
    let cwd = raw
        .directory
        .and_then(|node| directory(node, "cwd", context, entry));
    let base = cwd
        .clone()
        .unwrap_or_else(|| context.variables.workspace.to_owned());
    let mut arguments = Vec::new();
    let command = match &program.value {
        Value::Text(text) => program_of(program, text, &base, raw, &mut arguments, context, entry),
        Value::List(words) => match words.split_first() {
            Some((first, rest)) => {
                rest.iter()
                    .for_each(|word| arguments.extend(argument(word, "command", context, entry)));
                argument(first, "command", context, entry)
                    .map(|word| context.variables.tilde(&word))
            }
            None => None,
        },
        _ => {
            entry.error(
                program.at,
                wrong_type("\"command\"", "a text or a list of texts", program),
            );
            return None;
        }
    };
    match raw.arguments.map(|node| (node, &node.value)) {
        None => {}
        Some((_, Value::List(words))) => {
            words
                .iter()
                .for_each(|word| arguments.extend(argument(word, "args", context, entry)));
        }
        Some((node, Value::Text(line))) => match command::split(line) {
            None => entry.error(node.at, Reason::OpenQuote("\"args\"")),
            Some(words) => {
                entry.warn(
                    node.at,
                    Reason::ArgumentLine(command::corrected(None, &words)),
                );
                words.iter().for_each(|word| {
                    arguments.extend(expanded(node, word, "args", context, entry))
                });
            }
        },
        Some((node, _)) => entry.error(node.at, wrong_type("\"args\"", "a list of texts", node)),
    }
    let env = environment(raw, context, entry);
    let command = command.filter(|command| !command.is_empty());
    if command.is_none() && entry.failure().is_none() {
        entry.error(program.at, Reason::EmptyCommand);
    }
    let command = in_base(command?, &base);
    if !context.allow_self
        && let Some(how) = context.identity.recursion(&command, &arguments)
    {
        entry.error(program.at, Reason::SelfReference(how));
    }
    Some(Transport::Stdio {
        command,
        args: arguments,
        env,
        cwd,
    })
}

/// The program of a `command` that is one text; more words of it go to `arguments`.
fn program_of(
    node: &Node,
    text: &str,
    base: &Path,
    raw: &Raw<'_>,
    arguments: &mut Vec<String>,
    context: &mut Context<'_>,
    entry: &mut Entry,
) -> Option<String> {
    let text = text.trim();
    let program = expanded(
        node,
        &context.variables.tilde(text),
        "command",
        context,
        entry,
    )?;
    // Split as written, so that a variable whose value has a blank stays one word.
    if !text.contains(char::is_whitespace)
        || command::find(&program, base, context.search_path).is_some()
    {
        return Some(program);
    }
    let Some(words) = command::split(text) else {
        entry.error(node.at, Reason::OpenQuote("\"command\""));
        return None;
    };
    let (first, rest) = words.split_first()?;
    let given = raw.arguments.and_then(|node| match &node.value {
        Value::List(words) => Some(
            words
                .iter()
                .filter_map(|word| word.text().map(str::to_owned))
                .collect::<Vec<_>>(),
        ),
        _ => None,
    });
    let all: Vec<String> = rest
        .iter()
        .cloned()
        .chain(given.unwrap_or_default())
        .collect();
    entry.warn(
        node.at,
        Reason::CommandLine(command::corrected(Some(first), &all)),
    );
    rest.iter()
        .for_each(|word| arguments.extend(expanded(node, word, "command", context, entry)));
    expanded(
        node,
        &context.variables.tilde(first),
        "command",
        context,
        entry,
    )
}

/// A program given by a relative path, made absolute: where a child's relative program is looked for differs between
/// systems once it has a working directory of its own.
fn in_base(command: String, base: &Path) -> String {
    if command.contains('/') && !command.starts_with('/') {
        return base.join(command).to_string_lossy().into_owned();
    }
    command
}

fn argument(node: &Node, field: &str, context: &Context<'_>, entry: &mut Entry) -> Option<String> {
    match &node.value {
        Value::Text(text) => expanded(node, text, field, context, entry),
        Value::Number(number) => Some(number.clone()),
        Value::Bool(value) => Some(value.to_string()),
        _ => {
            entry.error(
                node.at,
                wrong_type(&format!("an element of {field:?}"), "a text", node),
            );
            None
        }
    }
}

fn directory(
    node: &Node,
    field: &str,
    context: &Context<'_>,
    entry: &mut Entry,
) -> Option<PathBuf> {
    let Some(text) = node.text() else {
        entry.error(node.at, wrong_type(&format!("{field:?}"), "a text", node));
        return None;
    };
    if text.trim().is_empty() {
        return None;
    }
    let path = expanded(node, &context.variables.tilde(text), field, context, entry)?;
    Some(context.variables.workspace.join(path))
}

/// What the child gets on top of what it inherits: handed through, then of the file, then of the block.
fn environment(
    raw: &Raw<'_>,
    context: &mut Context<'_>,
    entry: &mut Entry,
) -> BTreeMap<String, SecretString> {
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    if let Some(Value::List(names)) = raw.forwarded.map(|node| &node.value) {
        let names = names
            .iter()
            .filter_map(|node| node.text().or_else(|| node.get("name")?.text()));
        variables.extend(names.filter_map(|name| {
            context
                .variables
                .environment
                .get(name)
                .map(|value| (name.to_owned(), value.clone()))
        }));
    } else if let Some(node) = raw.forwarded {
        entry.error(node.at, wrong_type("\"env_vars\"", "a list of names", node));
    }
    if let Some(node) = raw.env_file {
        variables.extend(env_file_variables(node, context, entry).unwrap_or_default());
    }
    for block in &raw.environments {
        for (name, node) in pairs(block, "\"env\"", entry) {
            if name.is_empty() || name.contains(['=', '\0']) {
                entry.error(node.at, Reason::BadVariableName(name.replace('\0', "")));
                continue;
            }
            let field = format!("env.{name}");
            match &node.value {
                Value::Null => drop(variables.remove(name)),
                _ => {
                    if let Some(value) = scalar(node, &field, context, entry) {
                        variables.insert(name.to_owned(), value);
                    }
                }
            }
        }
    }
    variables.values().for_each(|value| entry.secret(value));
    variables.insert(
        depth::VARIABLE.to_owned(),
        depth::below(context.variables.environment),
    );
    variables
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

fn env_file_variables(
    node: &Node,
    context: &mut Context<'_>,
    entry: &mut Entry,
) -> Option<Vec<(String, String)>> {
    const LIMIT: u64 = 1 << 20;
    let path = directory(node, "envFile", context, entry)?;
    let shown = node.text().unwrap_or_default().to_owned();
    let result = read::text(&path, LIMIT);
    context
        .watched
        .push((path.clone(), Fingerprint::take(&path)));
    match result {
        Ok(Some((text, _))) => {
            let (variables, bad) = env_file::parse(&text);
            bad.into_iter()
                .take(3)
                .for_each(|line| entry.warn(node.at, Reason::EnvFileLine(shown.clone(), line)));
            Some(variables)
        }
        Ok(None) => {
            entry.error(node.at, Reason::EnvFile(shown, "does not exist".to_owned()));
            None
        }
        Err(reason) => {
            entry.error(node.at, Reason::EnvFile(shown, reason.to_string()));
            None
        }
    }
}

fn http(
    address: &Node,
    raw: &Raw<'_>,
    context: &mut Context<'_>,
    entry: &mut Entry,
) -> Option<Transport> {
    let Some(text) = address.text() else {
        entry.error(address.at, wrong_type("\"url\"", "a text", address));
        return None;
    };
    let url = expanded(address, text.trim(), "url", context, entry);
    let headers = headers(raw, context, entry);
    let url = url?;
    if let Err(reason) = check_address(&url) {
        entry.error(address.at, reason);
        return None;
    }
    secrets_of_address(&url, entry);
    Some(Transport::Http { url, headers })
}

fn check_address(url: &str) -> Result<(), Reason> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(Reason::NotAnAddress);
    };
    let is_scheme =
        scheme.len() <= 20 && !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphabetic());
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https"
            if !rest.is_empty()
                && url
                    .parse::<http::Uri>()
                    .is_ok_and(|uri| uri.host().is_some()) =>
        {
            Ok(())
        }
        "ws" | "wss" => Err(Reason::WebSocket),
        "http" | "https" => Err(Reason::NotAnAddress),
        other if is_scheme => Err(Reason::UnsupportedScheme(other.to_owned())),
        _ => Err(Reason::NotAnAddress),
    }
}

/// Credentials and the values of the query.
fn secrets_of_address(url: &str, entry: &mut Entry) {
    let (before, query) = url.split_once('?').unwrap_or((url, ""));
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .for_each(|(_, value)| entry.secret(value));
    let authority = before
        .split("://")
        .nth(1)
        .and_then(|rest| rest.split('/').next())
        .unwrap_or_default();
    if let Some((credentials, _)) = authority.rsplit_once('@') {
        credentials.split(':').for_each(|part| entry.secret(part));
        entry.secret(credentials);
    }
}

fn headers(
    raw: &Raw<'_>,
    context: &Context<'_>,
    entry: &mut Entry,
) -> BTreeMap<String, SecretString> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for block in &raw.headers {
        for (name, node) in pairs(block, "\"headers\"", entry) {
            if let Some(value) = scalar(node, &format!("headers.{name}"), context, entry) {
                add_header(name, value, node, &mut headers, entry);
            }
        }
    }
    let variable = |name: &str, field: &str| {
        let missing = || Reason::UnsetVariable {
            variable: name.chars().take(64).collect(),
            field: field.to_owned(),
        };
        context
            .variables
            .environment
            .get(name)
            .cloned()
            .ok_or_else(missing)
    };
    for (name, node) in raw
        .header_variables
        .map(|block| pairs(block, "\"env_http_headers\"", entry))
        .unwrap_or_default()
    {
        match variable(node.text().unwrap_or_default(), "env_http_headers") {
            Ok(value) => add_header(name, value, node, &mut headers, entry),
            Err(reason) => entry.error(node.at, reason),
        }
    }
    let bearer = match (raw.bearer_variable, raw.bearer) {
        (Some(node), _) => Some((
            node,
            variable(node.text().unwrap_or_default(), "bearer_token_env_var"),
        )),
        (None, Some(node)) => {
            scalar(node, "bearer_token", context, entry).map(|value| (node, Ok(value)))
        }
        (None, None) => None,
    };
    match bearer {
        Some((node, Err(reason))) => entry.error(node.at, reason),
        Some((node, Ok(token)))
            if !headers
                .keys()
                .any(|name| name.eq_ignore_ascii_case("authorization")) =>
        {
            add_header(
                "Authorization",
                format!("Bearer {}", token.trim()),
                node,
                &mut headers,
                entry,
            );
        }
        _ => {}
    }
    headers
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

fn add_header(
    name: &str,
    value: String,
    node: &Node,
    headers: &mut BTreeMap<String, String>,
    entry: &mut Entry,
) {
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return entry.error(
            node.at,
            Reason::BadHeaderName(name.chars().filter(|c| !c.is_control()).take(60).collect()),
        );
    }
    let value = value.trim().to_owned();
    if http::HeaderValue::from_str(&value).is_err() {
        return entry.error(node.at, Reason::BadHeaderValue(name.to_owned()));
    }
    entry.secret(&value);
    // "Bearer x": the token alone is as secret as the whole.
    if let Some((_, token)) = value.split_once(' ') {
        entry.secret(token);
    }
    headers.insert(name.to_owned(), value);
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

fn tool_names(node: &Node, key: &str, entry: &mut Entry) -> Option<BTreeSet<String>> {
    if let Value::List(names) = &node.value {
        // Gemini allows `tool(arguments)`; the tool is what is let through.
        let plain = |name: &Node| {
            name.text()
                .map(|text| text.split('(').next().unwrap_or_default().trim().to_owned())
        };
        return Some(names.iter().filter_map(plain).collect());
    }
    // Whoever limits tools must not get all of them because of a slip.
    entry.error(
        node.at,
        wrong_type(&format!("{key:?}"), "a list of names", node),
    );
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
    Guess,
}

/// `timeout`: a number for one thing, or an object with both.
fn timeouts(node: &Node, meaning: Timeout, entry: &mut Entry) {
    if let Some(fields) = node.fields() {
        for field in fields {
            match field.key.as_str() {
                "startup" | "start" | "connect" | "init" => {
                    entry.start_timeout = time(&field.node, "timeout", Unit::Milliseconds, entry);
                }
                "execution" | "request" | "call" | "tool" => {
                    entry.call_timeout = time(&field.node, "timeout", Unit::Milliseconds, entry);
                }
                _ => {}
            }
        }
        return;
    }
    match meaning {
        Timeout::StartMilliseconds => {
            entry.start_timeout = time(node, "timeout", Unit::Milliseconds, entry)
        }
        Timeout::Milliseconds => {
            entry.call_timeout = time(node, "timeout", Unit::Milliseconds, entry)
        }
        Timeout::Seconds => entry.call_timeout = time(node, "timeout", Unit::Seconds, entry),
        Timeout::Guess => entry.call_timeout = time(node, "timeout", Unit::Guess, entry),
    }
}

/// A time limit; one that makes no sense is reported and left out.
fn time(node: &Node, key: &str, unit: Unit, entry: &mut Entry) -> Option<Duration> {
    const LONGEST: f64 = 7.0 * 24.0 * 3600.0;
    let text = match &node.value {
        Value::Number(text) | Value::Text(text) => text.trim(),
        _ => {
            entry.warn(node.at, wrong_type(&format!("{key:?}"), "a number", node));
            return None;
        }
    };
    let (number, factor) = match text {
        _ if text.ends_with("ms") => (&text[..text.len() - 2], Some(0.001)),
        _ if text.ends_with('s') => (&text[..text.len() - 1], Some(1.0)),
        _ if text.ends_with('m') => (&text[..text.len() - 1], Some(60.0)),
        _ => (text, None),
    };
    let number: f64 = number.trim().replace('_', "").parse().unwrap_or(f64::NAN);
    let factor = factor.unwrap_or(match unit {
        Unit::Seconds => 1.0,
        Unit::Milliseconds => 0.001,
        Unit::Guess if number < 1000.0 => 1.0,
        Unit::Guess => 0.001,
    });
    let seconds = number * factor;
    if seconds.is_finite() && seconds > 0.0 {
        return Duration::try_from_secs_f64(seconds.min(LONGEST)).ok();
    }
    entry.warn(node.at, Reason::BadTimeout(format!("{key:?}")));
    None
}

fn wrong_type(what: &str, expected: &'static str, node: &Node) -> Reason {
    Reason::WrongType {
        what: what.to_owned(),
        expected,
        found: node.kind(),
    }
}

/// Whether a name may be a server's.
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
