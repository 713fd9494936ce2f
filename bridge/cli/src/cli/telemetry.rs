//! Logging: to stderr, at the level that the settings say, and about ourselves only.

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

/// Starts logging. Libraries are heard at `warn`, as some write whole messages at `debug`; at `trace` they are heard too.
pub(super) fn start(host: &HostEnv, level: LevelFilter) {
    let libraries = match level {
        LevelFilter::TRACE => LevelFilter::DEBUG,
        level => level.min(LevelFilter::WARN),
    };
    let targets = Targets::new()
        .with_default(libraries)
        // Complains as of errors of clients that simply went away.
        .with_target(
            "rmcp",
            if level > LevelFilter::INFO {
                libraries
            } else {
                LevelFilter::OFF
            },
        )
        .with_target("mcp_code_bridge", level)
        // The crates below bridge/, by the beginning of their names.
        .with_target("bridge_", level)
        .with_targets(CRATES.map(|name| (name, level)))
        .with_target("guest_image", level);
    let format = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(terminal::coloured(host, io::stderr().is_terminal()));
    // Fails only where logging was started before, as in tests.
    let _ = tracing_subscriber::registry()
        .with(format)
        .with(targets)
        .try_init();
}

/// For commands whose stderr is the code's own: errors only, unless more was asked for.
pub(super) fn start_quietly(settings: &Settings) {
    let level = settings.log_level;
    let level = if level > LevelFilter::INFO {
        level
    } else {
        level.min(LevelFilter::ERROR)
    };
    start(&settings.host, level);
}
