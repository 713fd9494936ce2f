//! A bridge reduced to its servers, for tests that kill it.

use std::path::PathBuf;

use anyhow::Context as _;
use bridge_catalog::{Catalog, SearchPaths};
use bridge_guardian::Guardian;
use bridge_upstream::{CallContext, Options, Upstreams};

/// Starts all servers that `file` defines and keeps them running until this process is killed.
pub(crate) async fn hold(file: PathBuf) -> anyhow::Result<()> {
    let environment: std::collections::BTreeMap<String, String> = std::env::vars().collect();
    let nowhere = file.with_extension("nowhere");
    let catalog = Catalog::load(SearchPaths {
        config_home: nowhere.clone(),
        extra: Some(file),
        ..SearchPaths::new(
            nowhere.clone(),
            nowhere.clone(),
            nowhere,
            environment.clone(),
        )
    });
    let program = std::env::current_exe()?
        .to_str()
        .context("path")?
        .to_owned();
    let guardian = Some(Guardian::new([program, "--guardian".to_owned()]));
    let upstreams = Upstreams::new(Options {
        environment,
        guardian,
        ..Options::default()
    });
    for definition in catalog.definitions() {
        upstreams.tools(definition, &CallContext::default()).await?;
    }
    std::future::pending().await
}
