//! What of this process and its settings the catalog and the servers' actors need to know.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bridge_catalog::{Places, ToolCache, depth};
use bridge_settings::Settings;
use bridge_store::Store;
use bridge_upstream::{Options, watchdog};

/// Where servers are defined for this process.
pub(in crate::cli) fn places(settings: &Settings) -> Result<Places, String> {
    let cwd = std::env::current_dir()
        .map_err(|error| format!("the working directory cannot be found: {error}"))?;
    let home = settings
        .surroundings
        .home
        .clone()
        .ok_or("there is no home folder: HOME is not set")?;
    Ok(Places {
        extra: settings.servers_config.clone(),
        allow_self: settings.allow_self_server,
        executable: std::env::current_exe().ok(),
        ..Places::new(home, cwd, settings.state_dir.clone(), environment())
    })
}

/// Likewise; where they cannot be told, no server is known, which costs nothing but servers.
pub(in crate::cli) fn places_or_none(settings: &Settings) -> Places {
    places(settings).unwrap_or_else(|problem| {
        tracing::warn!(%problem, "no MCP servers are known");
        let nowhere = settings.state_dir.clone();
        Places::new(nowhere.clone(), nowhere.clone(), nowhere, environment())
    })
}

/// The process's variables; those that are no text can be meant by no definition.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Where tool lists are kept.
pub(in crate::cli) fn cache(settings: &Settings) -> Option<ToolCache> {
    let folder: PathBuf = settings
        .surroundings
        .cache_home
        .as_ref()?
        .join("mcp-code-bridge");
    Some(ToolCache::below(&folder))
}

/// What is kept on this machine, for the project that the settings name.
pub(in crate::cli) fn store(settings: &Settings) -> Store {
    Store::of(settings, &std::env::current_dir().unwrap_or_default())
}

/// The command that outlives a killed bridge for a moment.
fn watchdog(places: &Places) -> Option<Vec<String>> {
    let program = places.executable.as_ref()?.to_str()?.to_owned();
    Some(vec![program, watchdog::SUBCOMMAND.to_owned()])
}

/// Where tokens of logins lie.
pub(in crate::cli) fn tokens(settings: &Settings) -> Option<PathBuf> {
    Some(
        settings
            .surroundings
            .config_home
            .as_ref()?
            .join("mcp-code-bridge/tokens"),
    )
}

/// How servers are run.
pub(in crate::cli) fn options(settings: &Settings, places: &Places) -> Options {
    Options {
        environment: places.environment.clone(),
        cwd: places.cwd.clone(),
        tokens: tokens(settings),
        watchdog: watchdog(places),
        ..Options::default()
    }
}

/// Whether this bridge is one too many: started by a server of another one.
pub(in crate::cli) fn check_depth(settings: &Settings) -> Result<(), depth::Error> {
    depth::check(&environment(), settings.allow_self_server).map(drop)
}
