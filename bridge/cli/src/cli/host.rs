//! What the catalog and the upstream servers need to know of this process and its settings.

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

/// Like [`search_paths`], but without any servers instead of an error, since code runs without
/// them.
pub(in crate::cli) fn search_paths_or_none(settings: &Settings) -> SearchPaths {
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

/// The cache of tool lists, in the user's cache folder.
pub(in crate::cli) fn cache(settings: &Settings) -> Option<ToolCache> {
    let folder = settings.host.cache_home()?.join("mcp-code-bridge");
    Some(ToolCache::below(&folder))
}

/// The store of this machine, for the project that the settings name.
pub(in crate::cli) fn store(settings: &Settings) -> Store {
    Store::of(settings, settings.host.cwd().unwrap_or(Path::new("")))
}

/// The process that cleans up if this one is killed; it starts when there is something to guard.
pub(in crate::cli) fn guardian(settings: &Settings) -> Option<Guardian> {
    let program = settings.host.executable()?;
    Some(Guardian::new([
        program.as_os_str(),
        bridge_guardian::SUBCOMMAND.as_ref(),
    ]))
}

/// The folder of OAuth tokens.
pub(in crate::cli) fn tokens(settings: &Settings) -> Option<PathBuf> {
    Some(settings.host.config_home()?.join("mcp-code-bridge/tokens"))
}

/// Options for running upstream servers.
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

/// Fails if this bridge was started by a server of another bridge.
pub(in crate::cli) fn check_depth(settings: &Settings) -> Result<(), depth::Error> {
    depth::check(&settings.host.variables(), settings.allow_self_server).map(drop)
}
