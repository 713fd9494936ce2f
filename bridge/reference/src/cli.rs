//! The page of the command line, from clap's definition of it.

use std::fmt::Write as _;

use clap::{Arg, Command, Id};

use crate::markdown::{MADE, code, table};

const NOTES: &str = "\
`run` prints the code's stdout to stdout and its stderr to stderr, byte for byte. Its exit code is 0 if the
code succeeded, 1 if it failed, 2 for wrong usage, 3 if the sandbox is unavailable, 124 at the time limit,
and 128 + n after signal n. Tables are made for people; `--json`, where it exists, is for programs.
`NO_COLOR` is respected.

";

/// `cli.md`.
pub fn cli() -> String {
    let mut root = mcp_code_bridge::cli::command();
    root.build();
    let mut page = format!("# Command line\n\n{MADE}");
    page.push_str(&about(&root));
    page.push_str(NOTES);
    let commands = visible(&root).map(|command| {
        let name = command.get_bin_name().unwrap_or_default().to_owned();
        [code(&name), short(command)]
    });
    page.push_str(&table(["command", "does"], commands));
    page.push_str("\n## Options of every command\n\n");
    page.push_str(&options(root.get_arguments()));
    let inherited = identities(&root);
    for command in visible(&root) {
        section(&mut page, command, 2, &inherited);
    }
    page
}

/// A command without the options that it inherits, then the commands below it.
fn section(page: &mut String, command: &Command, level: usize, inherited: &[Id]) {
    let name = command.get_bin_name().unwrap_or_default();
    let _ = write!(page, "\n{} {name}\n\n{}", "#".repeat(level), about(command));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = write!(page, "```text\n{usage}\n```\n");
    let own = |argument: &&Arg| !inherited.contains(argument.get_id());
    let options = options(command.get_arguments().filter(own));
    if !options.is_empty() {
        let _ = write!(page, "\n{options}");
    }
    let inherited = identities(command);
    for below in visible(command) {
        section(page, below, level + 1, &inherited);
    }
}

fn identities(command: &Command) -> Vec<Id> {
    command
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.get_id().clone())
        .collect()
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// A table of arguments; empty where there are none.
fn options<'a>(arguments: impl IntoIterator<Item = &'a Arg>) -> String {
    let mut rows = arguments
        .into_iter()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .map(|argument| [spelling(argument), meaning(argument)])
        .peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    table(["option", "meaning"], rows)
}

/// `-c, --code CODE`, `FILE`.
fn spelling(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let mut text = [short, long]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ");
    if argument.get_action().takes_values() {
        for name in argument.get_value_names().unwrap_or_default() {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(name);
        }
    }
    code(&text)
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| code(value.get_name()))
        .collect();
    // A flag's own true and false are noise.
    if !values.is_empty() && argument.get_action().takes_values() {
        let _ = write!(text, " ({})", values.join(", "));
    }
    let defaults = argument.get_default_values();
    if let ([default], true) = (defaults, argument.get_action().takes_values()) {
        let _ = write!(text, " (default: {})", default.to_string_lossy());
    }
    text.trim().to_owned()
}

fn short(command: &Command) -> String {
    command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// The whole description, as paragraphs.
fn about(command: &Command) -> String {
    let text = command.get_long_about().or_else(|| command.get_about());
    let text = text.map(ToString::to_string).unwrap_or_default();
    if text.is_empty() {
        return text;
    }
    format!("{}\n\n", text.trim_end())
}
