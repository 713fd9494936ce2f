//! A scriptable MCP server for tests: well-behaved by default, and misbehaving as its scenario
//! says.
//!
//! `stub-server SCENARIO` serves on its standard streams. `stub-server --http SCENARIO` serves
//! streamable HTTP on a free port of 127.0.0.1 and writes `listening on http://...` to its standard
//! output. SCENARIO is a file or JSON itself; `scenario.rs` describes its content. `stub-server
//! --hold FILE` is a bridge that starts the servers of FILE and waits to be killed, and
//! `--guardian` is the process that it starts beside them.

mod hold;
mod http;
mod scenario;
mod server;
mod stdio;

use std::sync::Arc;

use anyhow::{Context as _, bail};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (over_http, scenario) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--hold", file] => return hold::hold(file.into()).await,
        ["--guardian"] => {
            bridge_guardian::run(std::io::stdin().lock(), |_| {});
            return Ok(());
        }
        [scenario] => (false, scenario),
        ["--http", scenario] => (true, scenario),
        _ => bail!("usage: stub-server [--http] SCENARIO"),
    };
    let text = if scenario.trim_start().starts_with('{') {
        scenario.to_owned()
    } else {
        std::fs::read_to_string(scenario).with_context(|| format!("cannot read {scenario}"))?
    };
    let scenario: scenario::Scenario = serde_json::from_str(&text).context("bad scenario")?;
    let server = Arc::new(server::Server::new(scenario)?);
    if over_http {
        http::serve(server).await
    } else {
        stdio::serve(server).await
    }
}
