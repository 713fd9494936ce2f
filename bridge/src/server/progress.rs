//! Progress notifications: what takes long is told to a client that gave a token, at a bounded rate.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::session::Progress;

/// Between two notifications.
const PAUSE: Duration = Duration::from_millis(100);
/// A call of which there is nothing else to tell says that it is alive: clients that reset their own time limit on
/// progress wait on.
const ALIVE: Duration = Duration::from_secs(5);
/// For a client that does not read; the run goes on.
const SEND: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default)]
struct Step {
    message: String,
    done: u64,
    total: Option<u64>,
}

/// The end that the run writes to. Only the latest step is kept.
pub(super) struct Reporter {
    latest: Option<watch::Sender<Step>>,
}

/// The end that notifies the client.
pub(super) struct Reports {
    client: Option<Client>,
    started: Instant,
    last_sent: Option<Instant>,
    phase: String,
    base: f64,
    last: f64,
}

struct Client {
    steps: watch::Receiver<Step>,
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

/// Two ends for one call; silent where the client gave no token.
pub(super) fn channel(context: &RequestContext<RoleServer>) -> (Reporter, Reports) {
    let (latest, client) = match context.meta.get_progress_token() {
        None => (None, None),
        Some(token) => {
            let (sender, steps) = watch::channel(Step::default());
            (
                Some(sender),
                Some(Client {
                    steps,
                    peer: context.peer.clone(),
                    token,
                }),
            )
        }
    };
    let reports = Reports {
        client,
        started: Instant::now(),
        last_sent: None,
        phase: String::new(),
        base: 0.0,
        last: 0.0,
    };
    (Reporter { latest }, reports)
}

impl Progress for Reporter {
    fn report(&self, message: &str, done: u64, total: Option<u64>) {
        if let Some(latest) = &self.latest {
            latest.send_replace(Step {
                message: message.to_owned(),
                done,
                total,
            });
        }
    }
}

impl Reports {
    /// The next notification that is due. Waits for ever where there is no token.
    pub(super) async fn next(&mut self) -> ProgressNotificationParam {
        let step = loop {
            let Some(client) = &mut self.client else {
                std::future::pending::<()>().await;
                continue;
            };
            let quiet_since = self.last_sent.unwrap_or(self.started);
            tokio::select! {
                changed = client.steps.changed(), if client.steps.has_changed().is_ok() => {
                    if changed.is_ok() {
                        // Waiting before reading means that the newest step is the one that is sent.
                        if let Some(sent) = self.last_sent {
                            tokio::time::sleep_until(sent + PAUSE).await;
                        }
                        break client.steps.borrow_and_update().clone();
                    }
                }
                () = tokio::time::sleep_until(quiet_since + ALIVE) => {
                    let seconds = self.started.elapsed().as_secs();
                    break Step { message: format!("running for {seconds} s"), done: 0, total: None };
                }
            }
        };
        self.notification(step)
    }

    /// The value must grow from one notification to the next, also when a new phase counts from nought again.
    fn notification(&mut self, step: Step) -> ProgressNotificationParam {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a progress bar of 2^53 bytes is fine enough"
        )]
        let (done, total) = (step.done as f64, step.total.map(|total| total as f64));
        if step.message != self.phase {
            self.base = self.last;
            self.phase.clone_from(&step.message);
        }
        let progress = if self.base + done > self.last {
            self.base + done
        } else {
            self.last + 1.0
        };
        self.last = progress;
        let token = self.client.as_ref().map(|client| client.token.clone());
        let token = token.unwrap_or(ProgressToken(NumberOrString::Number(0)));
        let mut notification =
            ProgressNotificationParam::new(token, progress).with_message(step.message);
        notification.total = total.map(|total| (self.base + total).max(progress));
        notification
    }

    /// Sends it, giving up where the client does not read.
    pub(super) async fn send(&mut self, notification: ProgressNotificationParam) {
        self.last_sent = Some(Instant::now());
        let Some(client) = &self.client else { return };
        match tokio::time::timeout(SEND, client.peer.notify_progress(notification)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "progress not sent"),
            Err(_) => tracing::debug!("client does not read; progress not sent"),
        }
    }
}
