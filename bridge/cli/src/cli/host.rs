//! What of this process and its settings the catalog and the servers' actors need to know.

use std::path::{Path, PathBuf};

use bridge_catalog::{SearchPaths, depth};
use bridge_guardian::Guardian;
use bridge_settings::Settings;
use bridge_store::Store;
use bridge_tools::ToolCache;
use bridge_upstream::Options;

/// Where servers are defined for this process.
pub(in crate::cli) fn search_paths(settings: &Settings) -> Result<SearchPaths, String> {
    let host = &settings.host;
    let cwd = host
        .cwd()
        .map_err(|error| format!("cannot find the working directory: {error}"))?;
    let home = host.home().ok_or("no home folder: HOME is not set")?;
    Ok(SearchPaths {
        extra: settings.servers_config.clone(),
        allow_self: settings.allow_self_server,
        executable: host.executable().map(Path::to_owned),
        ..SearchPaths::new(
            home,
            cwd.to_owned(),
            settings.state_dir.clone(),
            host.variables(),
        )
    })
}

/// Likewise; where they cannot be told, no server is known, which costs nothing but servers.
pub(in crate::cli) fn places_or_none(settings: &Settings) -> SearchPaths {
    search_paths(settings).unwrap_or_else(|problem| {
        tracing::warn!(%problem, "no MCP servers are known");
        let nowhere = settings.state_dir.clone();
        SearchPaths::new(
            nowhere.clone(),
            nowhere.clone(),
            nowhere,
            settings.host.variables(),
        )
    })
}

/// Where tool lists are kept.
pub(in crate::cli) fn cache(settings: &Settings) -> Option<ToolCache> {
    let folder = settings.host.cache_home()?.join("mcp-code-bridge");
    Some(ToolCache::below(&folder))
}

/// What is kept on this machine, for the project that the settings name.
pub(in crate::cli) fn store(settings: &Settings) -> Store {
    Store::of(settings, settings.host.cwd().unwrap_or(Path::new("")))
}

/// The process that cleans up after this one should it be killed; not started before there is something to guard.
pub(in crate::cli) fn guardian(settings: &Settings) -> Option<Guardian> {
    let program = settings.host.executable()?;
    Some(Guardian::new([
        program.as_os_str(),
        bridge_guardian::SUBCOMMAND.as_ref(),
    ]))
}

/// Where tokens of logins lie.
pub(in crate::cli) fn tokens(settings: &Settings) -> Option<PathBuf> {
    Some(settings.host.config_home()?.join("mcp-code-bridge/tokens"))
}

/// How servers are run.
pub(in crate::cli) fn options(
    settings: &Settings,
    search_paths: &SearchPaths,
    guardian: Option<Guardian>,
) -> Options {
    Options {
        environment: search_paths.environment.clone(),
        cwd: search_paths.cwd.clone(),
        tokens: tokens(settings),
        guardian,
        ..Options::default()
    }
}

/// Whether this bridge is one too many: started by a server of another one.
pub(in crate::cli) fn check_depth(settings: &Settings) -> Result<(), depth::Error> {
    depth::check(&settings.host.variables(), settings.allow_self_server).map(drop)
}
