//! Wires the parts of a bridge together, from its settings to its sessions.

use std::sync::Arc;
use std::time::Duration;

use super::host;
use bridge_broker::{Broker, Limits};
use bridge_catalog::Watcher;
use bridge_sandbox::Launcher;
use bridge_session::Sessions;
use bridge_settings::Settings;
use bridge_tools::ToolBook;
use bridge_upstream::Upstreams;

/// How long to wait until the engine has removed what was started; it is asked at once.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// The parts of one bridge that subcommands use.
pub(super) struct Bridge {
    pub(super) launcher: Arc<Launcher>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) upstreams: Arc<Upstreams>,
    broker: Arc<Broker>,
}

impl Bridge {
    /// Builds the parts and starts nothing: the engine is looked for when code runs, and servers
    /// start when code asks for them.
    pub(super) fn new(settings: &Settings) -> Self {
        let guardian = host::guardian(settings);
        let launcher = Arc::new(Launcher::new(settings, guardian.clone()));
        let search_paths = host::search_paths_or_none(settings);
        let upstreams = Arc::new(Upstreams::new(host::options(
            settings,
            &search_paths,
            guardian,
        )));
        let broker = Broker::new(
            Arc::new(Watcher::new(search_paths)),
            Arc::clone(&upstreams),
            Arc::new(ToolBook::new(host::cache(settings))),
            Arc::new(host::store(settings)),
            Limits::default(),
        );
        let sessions = Sessions::new(launcher.clone(), Arc::clone(&broker), settings);
        Self {
            launcher,
            sessions: Arc::new(sessions),
            upstreams,
            broker,
        }
    }

    /// Returns a function that makes another set of sessions, which shares all other parts.
    pub(super) fn more_sessions(
        &self,
        settings: &Settings,
    ) -> impl Fn() -> Sessions + Send + Sync + 'static {
        let (launcher, broker) = (Arc::clone(&self.launcher), Arc::clone(&self.broker));
        let settings = settings.clone();
        move || Sessions::new(launcher.clone(), Arc::clone(&broker), &settings)
    }

    /// Ends the sessions first, and then what runs for them: guests, engine service, machine,
    /// servers.
    pub(super) async fn close(self) {
        let closed = async {
            self.sessions.shutdown().await;
            tokio::join!(self.launcher.close(), self.upstreams.shutdown());
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, closed).await.is_err() {
            tracing::warn!("the engine did not remove the guests in time; they end by themselves");
        }
    }
}
