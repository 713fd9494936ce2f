//! Brings the project files that a run has changed to the host.

use std::sync::Arc;

use tokio::time::timeout;

use super::death::Disconnect;
use super::events::EventHandler;
use super::requests::IDLE;
use super::running::RunningGuest;
use crate::run::capture::Capture;
use crate::run::notes::NotKept;
use crate::sync::incoming::Incoming;
use crate::sync::{COLLECT_LIMIT, Changes};
use bridge_store::{Origin, Store};
use bridge_wire::ChangedFiles;

/// Where changed files go, and what the guest may still write meanwhile.
pub(crate) struct Collection<'a> {
    /// Store that the files go to.
    pub(crate) store: &'a Arc<Store>,
    /// Which run wrote the files.
    pub(crate) origin: Origin,
    /// Takes output that comes late.
    pub(crate) late_output: &'a mut Capture,
    /// Bytes of each stream that are kept.
    pub(crate) output_bytes: u64,
}

impl Collection<'_> {
    /// Collects and keeps `files`. What comes of it is in the notes of the guest's
    /// [`crate::sync::GuestSync`]; an error says that the guest went away meanwhile.
    pub(crate) async fn bring(
        mut self,
        guest: &mut RunningGuest,
        files: ChangedFiles,
    ) -> Result<(), Disconnect> {
        let mut changes = Changes::choose(files, self.store).await;
        if !changes.is_empty() {
            match self.collect(guest, &changes).await? {
                Some(incoming) => {
                    let RunningGuest { sync, link, .. } = guest;
                    sync.keep(link, incoming, &mut changes, self.store, self.origin)
                        .await;
                }
                None => changes.note_not_kept(NotKept::NotSent),
            }
        }
        guest.sync.note_news(changes.notes);
        Ok(())
    }

    /// Asks the guest for the files and waits for them; `None` where they did not come in time.
    async fn collect(
        &mut self,
        guest: &mut RunningGuest,
        changes: &Changes,
    ) -> Result<Option<Incoming>, Disconnect> {
        let room = self.store.limits().file_bytes;
        guest.sync.begin_collection(&mut guest.link, changes, room);
        let waited = timeout(COLLECT_LIMIT, self.until_collected(guest)).await;
        let incoming = guest.sync.end_collection();
        match waited {
            Ok(collected) => collected.map(|()| incoming),
            Err(_) => Ok(None),
        }
    }

    async fn until_collected(&mut self, guest: &mut RunningGuest) -> Result<(), Disconnect> {
        let mut unwritable = false;
        while guest.sync.is_collecting() {
            let RunningGuest { link, .. } = &mut *guest;
            let event = tokio::select! {
                biased;
                result = link.sender.flush(), if link.sender.is_pending() && !unwritable => {
                    unwritable = result.is_err();
                    continue;
                }
                event = link.receiver.event() => event,
            };
            let mut handler = EventHandler {
                expected: None,
                requests: IDLE,
                capture: &mut *self.late_output,
                limit: self.output_bytes,
            };
            handler.handle_event(guest, event)?;
        }
        Ok(())
    }
}
