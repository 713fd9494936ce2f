//! The page of the tool: its definition as clients get it, and what the definition has no room for.

use serde_json::Value;

use bridge_settings::KEYS;

use crate::markdown::{MADE, code, table};

/// What an argument means, by its name. The definition says as little as models can do with, since
/// each conversation pays for it; this is the long form.
const ARGUMENTS: &[(&str, &str)] = &[
    (
        "code",
        "Python source, at most 12 MiB. Top-level `await` works; a bare last expression is the result, and a `;` behind it silences it. Required, unless `run` is given",
    ),
    (
        "servers",
        "names of MCP servers that the code may use, from this call on",
    ),
    (
        "timeout",
        "whole seconds for the call, from 1 to `{max_timeout}`; default `{timeout}`. Starting the sandbox counts, loading the image does not",
    ),
    (
        "session",
        "name of a session; each has its own container and variables. Default: the connection's own",
    ),
    ("reset", "start the session afresh first"),
    (
        "yield_after",
        "seconds, fractions allowed: if the run has not ended by then, the call answers with `status: running`, the run's name and the output so far, and the run goes on. `timeout` may then be up to `{max_run}`, and is that unless given",
    ),
    (
        "run",
        "instead of `code`: the name of a run to wait for, up to `yield_after` or `timeout`; `last` is the session's latest",
    ),
    ("cancel", "with `run`: interrupt it"),
    (
        "max_output_tokens",
        "about how many tokens of text the answer may have (4 bytes each), from 100 to 20,000,000; default `{output_tokens}`",
    ),
];

/// What stands in `structuredContent`, by its name.
const ANSWER: &[(&str, &str)] = &[
    (
        "status",
        "`success`, `error`, `timeout`, `cancelled`, `running` or `validation_error`",
    ),
    ("summary", "one line: what happened"),
    (
        "note",
        "what else to know, such as that the session is fresh",
    ),
    ("exitCode", "of `sys.exit`, or of the guest itself"),
    ("servers", "servers that were asked for"),
    ("stdout", "standard output, as much of it as fits"),
    ("stderr", "standard error, likewise"),
    (
        "stdoutDropped",
        "bytes of stdout that are not in the answer",
    ),
    (
        "stderrDropped",
        "bytes of stderr that are not in the answer",
    ),
    ("result", "a bare last expression: its `repr`, or a preview"),
    ("displays", "what was shown: `mimeType` and `bytes` of each"),
    ("displaysLeftOut", "how many more could not be shown"),
    (
        "files",
        "new files in `/workspace/out`: `name`, `uri`, `mimeType` and `size` of each",
    ),
    ("error", "what went wrong: a traceback, or a message"),
    (
        "reason",
        "one word where the error is not an exception of the code, such as `memory_limit`, `guest_exit`, or a code of `doctor`",
    ),
    ("timeoutSeconds", "the time limit, if it was reached"),
    (
        "toolCalls",
        "what became of tool calls, such as `3 done (github.create_issue ×2 (1 failed), time.now)`",
    ),
    ("session", "the session, if the call named one"),
    ("run", "the run's name, if it was left running"),
    ("state", "`kept` or `lost`, where that is news"),
];

const TEXT: &str = "\
The text of an answer is the output itself, then `stderr:`, `error:`, `exit:` and `status:` where they have
something to say. `structuredContent` has the same facts by name; empty ones are left out. `isError` is
true unless the status is `success` or `running`. [Sessions and results](../guide/sessions.md) explains how
long output is cut, and how pictures and files travel.

";

/// `tool.md`.
pub fn tool() -> String {
    let tool = serde_json::to_value(bridge_server::tool()).unwrap_or_default();
    let name = tool["name"].as_str().unwrap_or_default();
    let description = tool["description"].as_str().unwrap_or_default();
    let rows = properties(&tool).into_iter().map(|(name, property)| {
        let kind = match property["items"]["type"].as_str() {
            Some(item) => format!("array of {item}"),
            None => property["type"].as_str().unwrap_or_default().to_owned(),
        };
        [code(&name), kind, meaning(&name)]
    });
    let arguments = table(["argument", "type", "meaning"], rows);
    let answer = ANSWER
        .iter()
        .map(|(name, meaning)| [code(name), (*meaning).to_owned()]);
    let answer = table(["field", "meaning"], answer);
    let listed = serde_json::to_string_pretty(&tool).unwrap_or_default();
    format!(
        "# The tool\n\n{MADE}The bridge offers one tool, `{name}`. It describes itself to models so:\n\n```text\n{description}\n```\n\n\
         ## Arguments\n\n{arguments}\nA call has `code` or `run`. All mistakes in a call are reported at once, with status \
         `validation_error`; nothing is run then.\n\n## Answer\n\n{TEXT}{answer}\n## As listed\n\nThis is all of it in \
         `tools/list`:\n\n```json\n{listed}\n```\n"
    )
}

fn properties(tool: &Value) -> Vec<(String, Value)> {
    let properties = tool["inputSchema"]["properties"].as_object();
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| (name.clone(), property.clone()))
        .collect()
}

/// The long form of an argument, with the defaults of settings put in.
fn meaning(name: &str) -> String {
    let found = ARGUMENTS.iter().find(|(argument, _)| *argument == name);
    let mut text = found.map_or_else(String::new, |(_, text)| (*text).to_owned());
    for key in KEYS.iter() {
        let place = format!("`{{{}}}`", key.name);
        if text.contains(&place) {
            let default = format!("{} (setting `{}`)", key.default, key.name);
            text = text.replace(&place, &default);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_of_the_renderer(folder: &str) -> String {
        let folder = format!("{}/../render/src/{folder}", env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(folder).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths
            .filter(|path| path.is_file())
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect()
    }

    /// The renderer's snapshots are answers of every kind.
    #[test]
    fn every_field_of_recorded_answers_is_explained() {
        let mut recorded = std::collections::BTreeSet::new();
        for line in files_of_the_renderer("snapshots").lines() {
            if line.starts_with(r#"{"status""#) {
                let answer: Value = serde_json::from_str(line).unwrap();
                recorded.extend(answer.as_object().unwrap().keys().cloned());
            }
        }
        assert!(recorded.contains("stdout"), "no answers found");
        let explained = |name: &String| ANSWER.iter().any(|(answer, _)| answer == name);
        let missing: Vec<_> = recorded
            .into_iter()
            .filter(|name| !explained(name))
            .collect();
        assert!(missing.is_empty(), "not in ANSWER: {missing:?}");
    }

    #[test]
    fn only_fields_that_the_renderer_writes_are_explained() {
        let source = files_of_the_renderer("");
        for (name, _) in ANSWER {
            assert!(
                source.contains(&format!("\"{name}\"")),
                "{name} is not written"
            );
        }
    }

    #[test]
    fn every_argument_is_explained_and_no_other() {
        let tool = serde_json::to_value(bridge_server::tool()).unwrap();
        let listed: Vec<String> = properties(&tool)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let explained: Vec<&str> = ARGUMENTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, explained);
        assert!(listed.iter().all(|name| !meaning(name).contains('{')));
    }
}
