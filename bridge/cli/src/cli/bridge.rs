//! The parts wired together: settings, the launcher that they configure, the sessions that it feeds.

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

/// For an engine to remove what was started; it is told to at once, waiting only makes sure.
const CLOSE: Duration = Duration::from_secs(8);

/// One bridge.
pub(super) struct Bridge {
    pub(super) launcher: Arc<Launcher>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) upstreams: Arc<Upstreams>,
    broker: Arc<Broker>,
}

impl Bridge {
    /// Starts nothing: the engine is looked for when code is run, servers start when they are asked for.
    pub(super) fn new(settings: &Settings) -> Self {
        let guardian = host::guardian(settings);
        let launcher = Arc::new(Launcher::new(settings, guardian.clone()));
        let places = host::places_or_none(settings);
        let upstreams = Arc::new(Upstreams::new(host::options(settings, &places, guardian)));
        let broker = Broker::new(
            Arc::new(Watcher::new(places)),
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

    /// Makes further sets of sessions, which share all else.
    pub(super) fn more_sessions(
        &self,
        settings: &Settings,
    ) -> impl Fn() -> Sessions + Send + Sync + 'static {
        let (launcher, broker) = (Arc::clone(&self.launcher), Arc::clone(&self.broker));
        let settings = settings.clone();
        move || Sessions::new(launcher.clone(), Arc::clone(&broker), &settings)
    }

    /// Ends sessions first, then what runs for them: guests, engine service, machine, and servers.
    pub(super) async fn close(self) {
        let closed = async {
            self.sessions.shutdown().await;
            tokio::join!(self.launcher.close(), self.upstreams.shutdown());
        };
        if tokio::time::timeout(CLOSE, closed).await.is_err() {
            tracing::warn!("the engine does not end what was started; guests end by themselves");
        }
    }
}
