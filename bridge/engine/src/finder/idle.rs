//! The end of a podman machine that the bridge started: when it is idle, and nothing runs in it, ours or not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Usage;
use crate::Engine;
use crate::docker::Machine;

/// Stops the machine once no guest has used it for `idle`. The engine is then looked for, and the machine started, anew.
pub(super) async fn stop_when_idle(
    machine: Machine,
    engine: Arc<dyn Engine>,
    usage: Arc<Usage>,
    idle: Duration,
) {
    loop {
        let changed = usage.changed.notified();
        if usage.count.load(Ordering::Acquire) > 0 {
            changed.await;
            continue;
        }
        if tokio::time::timeout(idle, changed).await.is_ok() {
            continue;
        }
        if usage.count.load(Ordering::Acquire) == 0
            && stop_if_empty(&machine, engine.as_ref()).await
        {
            return;
        }
    }
}

/// Stops the machine unless something runs in it, ours or not; tells whether it is stopped.
pub(super) async fn stop_if_empty(machine: &Machine, engine: &dyn Engine) -> bool {
    match engine.running().await {
        Ok(0) => {}
        Ok(_) => return false,
        // It has gone by itself.
        Err(_) => return true,
    }
    match machine.stop().await {
        Ok(()) => {
            tracing::info!(machine.name = %machine.name, "stopped the idle podman machine");
            true
        }
        Err(problem) => {
            tracing::warn!(problem = %problem, "could not stop the podman machine");
            false
        }
    }
}
