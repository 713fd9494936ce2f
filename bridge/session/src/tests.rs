//! The sessions as their callers see them: against scripted guests in paused time, and against the
//! real Python runtime.

mod chaos;
mod deaths;
mod hostile;
mod kept;
mod left_running;
mod lifecycle;
mod limits;
mod local;
mod python;
mod requests;
mod results;
mod scripted;
mod spare;
mod starts;
mod told;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Client, Launch, Progress, RunRequest, Sessions};
use bridge_broker::{self as broker, Broker};
use bridge_catalog::{SearchPaths, Watcher};
use bridge_settings::{Limits, SessionSettings};
use bridge_store::{self as store, Store};
use bridge_tools::ToolBook;
use bridge_upstream::{Options, Upstreams};

fn settings() -> SessionSettings {
    SessionSettings {
        timeout: Duration::from_secs(30),
        max_timeout: Duration::from_secs(120),
        max_run: Duration::from_secs(3600),
        grace: Duration::from_secs(2),
        idle: Duration::from_secs(1800),
        max_sessions: 3,
        spare: false,
    }
}

fn limits() -> Limits {
    Limits {
        memory_bytes: 512 << 20,
        pids: 128,
        cpus: None,
        open_files: 1024,
        user: (65534, 65534),
        output_bytes: 1000,
    }
}

fn sessions(launch: &Arc<impl Launch>) -> Arc<Sessions> {
    sessions_with(launch, settings())
}

/// Sessions with a small limit on output.
fn sessions_with(launch: &Arc<impl Launch>, settings: SessionSettings) -> Arc<Sessions> {
    Arc::new(Sessions::with(
        Arc::clone(launch) as Arc<dyn Launch>,
        broker(None),
        limits(),
        settings,
    ))
}

/// A broker over the servers of this file, or over none.
fn broker(file: Option<PathBuf>) -> Arc<Broker> {
    broker_with(file, Path::new("/nonexistent"))
}

/// A broker over the servers of this file, with its store in this folder.
fn broker_with(file: Option<PathBuf>, state: &Path) -> Arc<Broker> {
    let nowhere = PathBuf::from("/nonexistent");
    let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let search_paths = SearchPaths {
        extra: file,
        ..SearchPaths::new(
            nowhere.clone(),
            nowhere.clone(),
            nowhere,
            environment.clone(),
        )
    };
    let options = Options {
        environment,
        ..Options::default()
    };
    Broker::new(
        Arc::new(Watcher::new(search_paths)),
        Arc::new(Upstreams::new(options)),
        Arc::new(ToolBook::new(None)),
        Arc::new(Store::new(state, store::Limits::default())),
        broker::Limits::default(),
    )
}

/// A call with the default limit.
fn call(code: &str) -> RunRequest {
    RunRequest {
        session: None,
        code: code.to_owned(),
        timeout: Duration::from_secs(30),
        reset: false,
        text_bytes: 32_000,
        servers: Vec::new(),
        client: Client::default(),
        cancel: CancellationToken::new(),
    }
}

fn named(session: &str, code: &str) -> RunRequest {
    RunRequest {
        session: Some(session.to_owned()),
        ..call(code)
    }
}

/// Progress that nobody hears of.
struct Silent;

impl Progress for Silent {
    fn report(&self, _: &str, _: u64, _: Option<u64>) {}
}

fn silent() -> Arc<dyn Progress> {
    Arc::new(Silent)
}
