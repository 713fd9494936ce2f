//! Stops a podman machine that the bridge started, once it is idle and no container of anybody runs
//! in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Usage;
use crate::Engine;
use crate::docker::Machine;

/// Stops the machine once no guest has used it for `idle`. The next guest starts it again.
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

/// Stops the machine unless a container of anybody runs in it; returns whether it is stopped.
pub(super) async fn stop_if_empty(machine: &Machine, engine: &dyn Engine) -> bool {
    match engine.running().await {
        Ok(0) => {}
        Ok(_) => return false,
        // The engine has gone by itself.
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
