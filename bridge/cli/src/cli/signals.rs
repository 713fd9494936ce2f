//! Signals that ask the program to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signal that arrived, if any.
#[derive(Debug, Clone, Default)]
pub(super) struct Received(Arc<AtomicU8>);

impl Received {
    /// The exit code after a signal: 128 plus its number, as in shells.
    pub(super) fn exit_code(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(128 + number),
        }
    }
}

/// Fires `token` at the first SIGTERM, SIGINT or SIGHUP. The second one ends the process at once.
pub(super) fn cancel_on_signal(token: CancellationToken) -> std::io::Result<Received> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let received = Received::default();
    let told = received.clone();
    tokio::spawn(async move {
        told.0.store(
            next(&mut hangup, &mut interrupt, &mut terminate).await,
            Ordering::Relaxed,
        );
        token.cancel();
        let number = next(&mut hangup, &mut interrupt, &mut terminate).await;
        leave(128 + number);
    });
    Ok(received)
}

async fn next(hangup: &mut Signal, interrupt: &mut Signal, terminate: &mut Signal) -> u8 {
    tokio::select! {
        _ = hangup.recv() => 1,
        _ = interrupt.recv() => 2,
        _ = terminate.recv() => 15,
    }
}

#[expect(
    clippy::exit,
    reason = "a second signal means that the orderly end takes too long"
)]
fn leave(code: u8) -> ! {
    std::process::exit(i32::from(code))
}
