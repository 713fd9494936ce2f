//! Entries that start a program: command line, environment, working directory, and whether that is the bridge itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bridge_common::programs;
use secrecy::SecretString;

use super::super::definition::Transport;
use super::super::document::{Node, Value};
use super::super::problem::Reason;
use super::super::read::Fingerprint;
use super::super::{command, depth, env_file, read};
use super::{Context, Entry, Raw, expanded, pairs, scalar, wrong_type};

pub(super) fn stdio(
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
                for word in rest {
                    arguments.extend(argument(word, "command", context, entry));
                }
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
            for word in words {
                arguments.extend(argument(word, "args", context, entry));
            }
        }
        Some((node, Value::Text(line))) => match shlex::split(line) {
            None => entry.error(node.at, Reason::OpenQuote("\"args\"")),
            Some(words) => {
                entry.warn(
                    node.at,
                    Reason::ArgumentLine(command::corrected(None, &words)),
                );
                for word in &words {
                    arguments.extend(expanded(node, word, "args", context, entry));
                }
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
        || programs::find(&program, context.search_path.as_ref(), base).is_some()
    {
        return Some(program);
    }
    let Some(words) = shlex::split(text) else {
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
    for word in rest {
        arguments.extend(expanded(node, word, "command", context, entry));
    }
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
    // Component by component, so that no `/./` stays.
    Some(
        context
            .variables
            .workspace
            .join(path)
            .components()
            .collect(),
    )
}

/// The variables on top of the inherited ones: passed through, then from the file, then from the `env` block.
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
    for value in variables.values() {
        entry.secret(value);
    }
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
