//! The parts wired together: settings, the launcher that they configure, the sessions that it feeds.

use std::sync::Arc;
use std::time::Duration;

use crate::session::Sessions;
use crate::session::launch::Launcher;
use crate::settings::Settings;

/// For an engine to remove what was started; it is told to at once, waiting only makes sure.
const CLOSE: Duration = Duration::from_secs(8);

/// One bridge.
pub(super) struct Bridge {
    pub(super) launcher: Arc<Launcher>,
    pub(super) sessions: Arc<Sessions>,
}

impl Bridge {
    /// Starts nothing: the engine is looked for when code is run.
    pub(super) fn new(settings: &Settings) -> Self {
        let launcher = match std::env::current_exe() {
            Ok(program) => Launcher::swept_by(settings, program),
            Err(_) => Launcher::new(settings),
        };
        let launcher = Arc::new(launcher);
        let sessions = Arc::new(Sessions::new(launcher.clone(), settings));
        Self { launcher, sessions }
    }

    /// Ends sessions first, then what runs for them: guests, engine service, machine.
    pub(super) async fn close(self) {
        let closed = async {
            self.sessions.shutdown().await;
            self.launcher.close().await;
        };
        if tokio::time::timeout(CLOSE, closed).await.is_err() {
            tracing::warn!("the engine does not end what was started; guests end by themselves");
        }
    }
}
