//! The one resource: what code in the sandbox can count on, written from the settings that apply.

use std::fmt::Write as _;

use rmcp::model::{ReadResourceResult, Resource, ResourceContents};

use crate::render::size;
use crate::settings::Settings;

pub(super) const URI: &str = "resource://mcp-server-code-execution-mode/capabilities";
const NAME: &str = "code-execution-capabilities";
const TYPE: &str = "text/markdown";

/// As listed.
pub(super) fn resource() -> Resource {
    let mut resource = Resource::new(URI, NAME);
    resource.description = Some("What code run by run_python can count on".to_owned());
    resource.mime_type = Some(TYPE.to_owned());
    resource
}

/// As read.
pub(super) fn contents(text: &str) -> ReadResourceResult {
    ReadResourceResult::new(vec![ResourceContents::TextResourceContents {
        uri: URI.to_owned(),
        mime_type: Some(TYPE.to_owned()),
        text: text.to_owned(),
        meta: None,
    }])
}

/// The text.
pub(super) fn write(settings: &Settings) -> String {
    let limits = &settings.limits;
    let session = &settings.session;
    let mut text = String::from(
        "# run_python\n\n\
         Code runs as `__main__` of a Python 3.14 with its standard library, in a container without network, as an \
         ordinary user, on a read-only root.\n\n\
         - Variables, imports and functions persist between calls of one session. `session` names a separate one; \
         `reset: true` starts it afresh.\n\
         - `await` works at top level. A bare last expression is shown by its `repr`.\n\
         - Files: `/workspace` (current directory, 128 MiB), `/tmp` and `/projects` (64 MiB each), in memory, gone with \
         the session; nothing in them can be executed.\n\
         - MCP servers of this machine: name them in `servers` once per session, then `await mcp_<server>.<tool>(name=value)`; \
         in the name of a server or tool, what Python does not allow is `_`. Results come as Python values; \
         `asyncio.gather` runs calls side by side. A failed call raises `ToolError`.\n\
         - Discovery: `discovered_servers()` names all servers, `await search_tool_docs(\"words\")` finds tools of all of \
         them, `await query_tool_docs(\"server\", \"tool\", detail=\"full\")` shows parameters.\n\
         - `input()` has nothing to read. Child processes work as far as programs are there.\n",
    );
    let cpus = limits
        .cpus
        .map(|cpus| format!(", {cpus} CPUs"))
        .unwrap_or_default();
    let _ = write!(
        text,
        "- Limits: {} of memory, {} processes and threads{cpus}, {} open files; {} of stdout and of stderr per call, what \
         is over is counted and dropped.\n\
         - Time: `timeout` in whole seconds, {} unless given, at most {}. At the limit code gets a KeyboardInterrupt; if \
         it ends within {} s, variables are kept (`state: kept`), else they are lost and the next call says so.\n",
        size(limits.memory_bytes),
        limits.pids,
        limits.open_files,
        size(limits.output_bytes),
        session.timeout.as_secs(),
        session.max_timeout.as_secs(),
        session.grace.as_secs_f32(),
    );
    if !session.idle.is_zero() {
        let _ = writeln!(
            text,
            "- A session unused for {} s ends.",
            session.idle.as_secs()
        );
    }
    text.push_str("- Calls in one session run one after the other; sessions run side by side.\n");
    text
}
