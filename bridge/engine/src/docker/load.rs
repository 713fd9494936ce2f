//! Loading an image archive. Progress is counted in bytes sent, since engines report none.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::query_parameters::ImportImageOptions;
use futures_util::{StreamExt, TryStreamExt};
use tokio_util::io::ReaderStream;

use super::DockerEngine;
use crate::Error;
use bridge_common::error::io_reason as reason;

/// The time limit of a load; unpacking goes on after the last byte was sent.
const LOAD: Duration = Duration::from_secs(600);
/// How often progress is reported.
const TELL: Duration = Duration::from_millis(100);
/// Size of the pieces in which an archive is sent.
const PIECE_BYTES: usize = 256 << 10;

impl DockerEngine {
    /// Sends the archive to the engine and waits until it is unpacked.
    pub(super) async fn load(
        &self,
        archive: File,
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let act = "load the guest image";
        let file = tokio::fs::File::from_std(archive);
        let count = Arc::new(AtomicU64::new(0));
        let broken = Arc::new(Mutex::new(None));
        let pieces = {
            let (count, broken) = (count.clone(), broken.clone());
            ReaderStream::with_capacity(file, PIECE_BYTES).map(move |piece| {
                match &piece {
                    Ok(bytes) => {
                        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    }
                    Err(error) => {
                        if let Ok(mut broken) = broken.lock() {
                            *broken = Some(reason(error));
                        }
                    }
                }
                piece
            })
        };
        let answers = self
            .client
            .import_image_stream(ImportImageOptions::default(), pieces, None);
        let load = answers.try_for_each(|_| async { Ok(()) });
        let mut load = std::pin::pin!(self.within(LOAD, act, load));
        let mut ticks = tokio::time::interval(TELL);
        let mut told = None;
        let mut tell = || {
            let now = count.load(Ordering::Relaxed);
            if told.replace(now) != Some(now) {
                sent(now);
            }
        };
        let result = loop {
            tokio::select! {
                result = &mut load => break result,
                _ = ticks.tick() => tell(),
            }
        };
        tell();
        // A file that cannot be read to its end looks to the engine like a client that went away.
        let broken = broken.lock().ok().and_then(|mut broken| broken.take());
        match broken {
            Some(reason) => Err(Error::Archive { reason }),
            None => result,
        }
    }
}
