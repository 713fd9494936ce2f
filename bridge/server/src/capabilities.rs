//! The capabilities resource: the manual of the sandbox, and the limits that the settings set.

use std::fmt::Write as _;

use rmcp::model::{ReadResourceResult, Resource, ResourceContents};

use bridge_common::human::size;
use bridge_sandbox::image;
use bridge_settings::Settings;

pub(super) const URI: &str = "resource://mcp-server-code-execution-mode/capabilities";
const NAME: &str = "code-execution-capabilities";
const TYPE: &str = "text/markdown";

/// The resource as it is listed.
pub(super) fn resource() -> Resource {
    let mut resource = Resource::new(URI, NAME);
    resource.description = Some("What code run by run_python can count on".to_owned());
    resource.mime_type = Some(TYPE.to_owned());
    resource
}

/// The resource as it is read.
pub(super) fn contents(text: &str) -> ReadResourceResult {
    ReadResourceResult::new(vec![ResourceContents::TextResourceContents {
        uri: URI.to_owned(),
        mime_type: Some(TYPE.to_owned()),
        text: text.to_owned(),
        meta: None,
    }])
}

/// The text of the guest's `capability_summary()`, written by `make manual`: both come from one
/// table in the guest.
const MANUAL: &str = include_str!("manual.md");

/// The text of the resource: the manual, and the limits that the settings set.
pub(super) fn write(settings: &Settings) -> String {
    let limits = &settings.limits;
    let session = &settings.session;
    let mut text = MANUAL.to_owned();
    let packages = image::packages(&settings.image);
    if !packages.is_empty() {
        let _ = writeln!(text, "\nInstalled: {}.", packages.join(", "));
    }
    let cpus = limits
        .cpus
        .map(|cpus| format!(", {cpus} CPUs"))
        .unwrap_or_default();
    let _ = write!(
        text,
        "\nLimits: {} of memory, {} processes and threads{cpus}, {} open files; long output is answered by its head and \
         tail (`max_output_tokens`). `timeout`: {} s unless given, at most {}, or {} with `yield_after`; {} s to react to the KeyboardInterrupt.",
        size(limits.memory_bytes),
        limits.pids,
        limits.open_files,
        session.timeout.as_secs(),
        session.max_timeout.as_secs(),
        session.max_run.as_secs(),
        session.grace.as_secs_f32(),
    );
    if !session.idle.is_zero() {
        let _ = write!(
            text,
            " A session unused for {} s ends.",
            session.idle.as_secs()
        );
    }
    text.push('\n');
    text
}
