//! Progress notifications for clients that gave a token, at a bounded rate.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;
use tokio::time::Instant;

use super::questions::readable;
use bridge_session::Progress;

/// The shortest time between two notifications.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// After this long without news, a notification says that the run goes on: clients may reset their
/// own time limit on progress.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long a client has to read a notification; the run does not wait for it.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The most characters of a message.
const MESSAGE_CHARACTERS: usize = 200;

#[derive(Debug, Clone, Default)]
struct Step {
    /// What is being counted; a new phase counts from zero again.
    phase: String,
    message: String,
    done: f64,
    total: Option<f64>,
}

/// Where the run reports its steps. Only the latest one is kept.
#[derive(Clone, Default)]
pub(super) struct Steps(watch::Sender<Step>);

/// Notifies the client of a run's steps.
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

impl Steps {
    /// Reports `done` of `total` in this phase.
    pub(super) fn set(&self, phase: String, message: &str, done: f64, total: Option<f64>) {
        self.0.send_replace(Step {
            phase,
            message: readable(message, MESSAGE_CHARACTERS),
            done,
            total,
        });
    }
}

impl Progress for Steps {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a progress bar of 2^53 bytes is fine enough"
    )]
    fn report(&self, message: &str, done: u64, total: Option<u64>) {
        let total = total.map(|total| total as f64);
        self.set(message.to_owned(), message, done as f64, total);
    }
}

impl Reports {
    /// Follows the steps from now on, for the client of this request; silent without a token.
    pub(super) fn new(context: &RequestContext<RoleServer>, steps: &Steps) -> Self {
        let client = context.meta.get_progress_token().map(|token| Client {
            steps: steps.0.subscribe(),
            peer: context.peer.clone(),
            token,
        });
        Self {
            client,
            started: Instant::now(),
            last_sent: None,
            phase: String::new(),
            base: 0.0,
            last: 0.0,
        }
    }

    /// Waits for the next notification that is due; for ever without a token.
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
                        // Reads after the wait, so that the newest step is the one that is sent.
                        if let Some(sent) = self.last_sent {
                            tokio::time::sleep_until(sent + MIN_INTERVAL).await;
                        }
                        break client.steps.borrow_and_update().clone();
                    }
                }
                () = tokio::time::sleep_until(quiet_since + KEEP_ALIVE) => {
                    let seconds = self.started.elapsed().as_secs();
                    let message = format!("running for {seconds} s");
                    break Step { phase: message.clone(), message, done: 0.0, total: None };
                }
            }
        };
        self.notification(step)
    }

    /// Makes the value grow from one notification to the next, as the protocol requires, even when
    /// a new phase counts from zero.
    fn notification(&mut self, step: Step) -> ProgressNotificationParam {
        let Step {
            phase,
            message,
            done,
            total,
        } = step;
        if phase != self.phase {
            self.base = self.last;
            self.phase = phase;
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
            ProgressNotificationParam::new(token, progress).with_message(message);
        notification.total = total.map(|total| (self.base + total).max(progress));
        notification
    }

    /// Sends a notification, or drops it when the client does not read.
    pub(super) async fn send(&mut self, notification: ProgressNotificationParam) {
        self.last_sent = Some(Instant::now());
        let Some(client) = &self.client else { return };
        match tokio::time::timeout(SEND_TIMEOUT, client.peer.notify_progress(notification)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "progress not sent"),
            Err(_) => tracing::debug!("progress not sent: the client does not read"),
        }
    }
}
