//! Logging to stderr, at the level that the settings name.

use std::io::{self, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::terminal;
use bridge_common::host::HostEnv;
use bridge_settings::Settings;

/// The crates of the bridge, as their events name them.
const CRATES: [&str; 14] = [
    "bridge_broker",
    "bridge_catalog",
    "bridge_common",
    "bridge_engine",
    "bridge_guardian",
    "bridge_render",
    "bridge_sandbox",
    "bridge_server",
    "bridge_session",
    "bridge_settings",
    "bridge_store",
    "bridge_tools",
    "bridge_upstream",
    "bridge_wire",
];

/// Starts logging. Libraries log at most at `warn`, as some write whole messages at `debug`; with
/// the level `trace` they log at `debug`.
pub(super) fn start(host: &HostEnv, level: LevelFilter) {
    let libraries = match level {
        LevelFilter::TRACE => LevelFilter::DEBUG,
        level => level.min(LevelFilter::WARN),
    };
    let targets = Targets::new()
        .with_default(libraries)
        // rmcp logs clients that simply went away as errors.
        .with_target(
            "rmcp",
            if level > LevelFilter::INFO {
                libraries
            } else {
                LevelFilter::OFF
            },
        )
        .with_target("mcp_code_bridge", level)
        // The crates of the bridge, whose names begin with this.
        .with_target("bridge_", level)
        .with_targets(CRATES.map(|name| (name, level)))
        .with_target("guest_image", level);
    let format = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(terminal::coloured(host, io::stderr().is_terminal()));
    // Fails only if logging was started before, as in tests.
    let _ = tracing_subscriber::registry()
        .with(format)
        .with(targets)
        .try_init();
}

/// Starts logging for commands whose stderr belongs to the code they run: errors only, unless the
/// settings ask for more than `info`.
pub(super) fn start_quietly(settings: &Settings) {
    let level = settings.log_level;
    let level = if level > LevelFilter::INFO {
        level
    } else {
        level.min(LevelFilter::ERROR)
    };
    start(&settings.host, level);
}
