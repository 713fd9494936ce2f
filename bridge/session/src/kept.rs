//! What outlives a session, on its way: to a guest, and from it after each run.
//!
//! Saved tools are told before the first code. Files wait until the guest asks for them or nothing else is to be done: they
//! may be many, and few calls look at them. A guest names the files that changed; the host chooses, asks for those, and
//! answers the call when they are on its disk.

mod incoming;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::incoming::Incoming;
use super::capture::Capture;
use super::dispatch::IDLE;
use super::ending::Death;
use super::start::RunningGuest;
use bridge_broker::Broker;
use bridge_store::{Origin, Part, Seen, Store, Update};
use bridge_wire::{ChangedFiles, FilePiece, SavedTools, State, StateFile, StateUpdate, ToGuest};

/// After a run, before files are read that the guest has not asked for: the next call may come at once.
const CALM: Duration = Duration::from_millis(50);
/// For a guest to send the files that it was asked for.
const COLLECT_LIMIT: Duration = Duration::from_secs(20);
/// Files of each kind that are looked at after one run.
const MOST_NAMED: usize = 10_000;
/// Notes about files in one answer.
const NOTES: usize = 5;

/// What a guest knows of what is kept.
pub(super) struct Known {
    broker: Arc<Broker>,
    seen: Seen,
    /// It was told that there are files, and not which.
    owed: bool,
    /// These are being read; `seen` is there.
    reading: Option<JoinHandle<(Seen, Update)>>,
    /// To be said with the next answer.
    notes: Vec<String>,
    /// Said with the last answers, and true still.
    told: BTreeSet<String>,
    incoming: Option<Incoming>,
    collections: u64,
}

impl Known {
    /// Of a guest that has not been told anything.
    pub(super) fn new(broker: &Arc<Broker>) -> Self {
        Self {
            broker: Arc::clone(broker),
            seen: Seen::default(),
            owed: false,
            reading: None,
            notes: Vec::new(),
            told: BTreeSet::new(),
            incoming: None,
            collections: 0,
        }
    }

    /// Begins to read the files that the guest was not told of; false where there are none, or it has begun.
    pub(super) fn fetch(&mut self) -> bool {
        if !self.owed || self.reading.is_some() {
            return false;
        }
        let seen = std::mem::take(&mut self.seen);
        self.reading = Some(self.broker.begin_update(seen, &[Part::Files]));
        true
    }

    /// The files, once they are read; waits for ever where none are being read. May be dropped and called again.
    pub(super) async fn read(&mut self) -> (Seen, Update) {
        let Some(reading) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = reading.await.unwrap_or_default();
        self.reading = None;
        read
    }

    /// Likewise, and begins to read them when this has been waited for a while.
    pub(super) async fn read_when_calm(&mut self) -> (Seen, Update) {
        if self.owed && self.reading.is_none() {
            sleep(CALM).await;
            self.fetch();
        }
        self.read().await
    }

    /// What is to be said of what is kept.
    pub(super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// A piece of a file; false where nobody asked for it.
    pub(super) fn take_piece(&mut self, piece: FilePiece<'_>) -> bool {
        self.incoming
            .as_mut()
            .is_some_and(|incoming| incoming.take(piece))
    }

    /// The guest has sent all; false where nobody asked.
    pub(super) fn take_end(&mut self, id: u64) -> bool {
        let incoming = self.incoming.as_mut().filter(|incoming| incoming.id == id);
        incoming.is_some_and(|incoming| {
            incoming.done = true;
            true
        })
    }

    /// Notes that are news: what was said last time and holds still is not said again.
    fn news(&mut self, notes: Vec<String>) {
        let now: BTreeSet<String> = notes.iter().cloned().collect();
        let mut news: Vec<String> = notes
            .into_iter()
            .filter(|note| !self.told.contains(note))
            .collect();
        self.told = now;
        let more = news.len().saturating_sub(NOTES);
        news.truncate(NOTES);
        if more > 0 {
            news.push(format!("{more} more files below /projects are not kept"));
        }
        self.notes.append(&mut news);
    }
}

impl RunningGuest {
    /// Tells the guest what is new since it was last told; files only where it has been told of all before. Goes out with
    /// the next frames.
    pub(super) async fn tell(&mut self) {
        self.finish_reading().await;
        let parts: &[Part] = if self.known.owed {
            &[Part::Tools]
        } else {
            &[Part::Tools, Part::Files]
        };
        let seen = std::mem::take(&mut self.known.seen);
        let updated = self.known.broker.update(seen, parts).await;
        self.take_update(updated);
    }

    /// Tells the guest of the files that it has not been told of.
    pub(super) async fn tell_files(&mut self) {
        self.known.fetch();
        self.finish_reading().await;
    }

    /// Nothing is being read when this comes back.
    async fn finish_reading(&mut self) {
        if self.known.reading.is_some() {
            let read = self.known.read().await;
            self.take_update(read);
        }
    }

    /// Puts what was read behind the frames that wait.
    pub(super) fn take_update(&mut self, (seen, update): (Seen, Update)) {
        self.known.seen = seen;
        let awaited = std::mem::replace(&mut self.known.owed, update.more);
        for frame in State::frames(&to_wire(&update), awaited) {
            if self.link.sender.queue_bounded(&frame).is_err() {
                // A frame of this size is taken.
                let _ = self.link.sender.queue_bounded(&frame.without_content());
                self.known
                    .notes
                    .push("not all of what is kept fits into the sandbox".to_owned());
            }
        }
        self.known.notes.extend(update.notes);
    }

    /// Brings files that a run has changed to the host. What comes of it is in the notes.
    pub(super) async fn carry(
        &mut self,
        files: ChangedFiles,
        store: &Arc<Store>,
        origin: Origin,
        capture: &mut Capture,
        output_bytes: u64,
    ) -> Result<(), Death> {
        let ChangedFiles {
            mut changed,
            mut deleted,
            mut odd,
        } = files;
        // A guest names fewer; one that lies is not worth the memory.
        changed.truncate(MOST_NAMED);
        deleted.truncate(MOST_NAMED);
        odd.truncate(MOST_NAMED);
        let mut notes: Vec<String> = odd
            .iter()
            .map(|(path, why)| Store::refuse(path, why))
            .collect();
        let (paths, refused) = {
            let (store, deleted) = (Arc::clone(store), deleted.clone());
            blocking(move || store.choose(&changed, &deleted))
                .await
                .unwrap_or_default()
        };
        notes.extend(refused);
        if !paths.is_empty() || !deleted.is_empty() {
            match self.collect(paths, &deleted, store, capture, output_bytes).await {
                Ok(incoming) => self.keep(incoming, deleted, store, origin, &mut notes).await,
                Err(Some(death)) => return Err(death),
                Err(None) => notes.push("what this run left below /projects is not kept: the sandbox did not send it in time".to_owned()),
            }
        }
        self.known.news(notes);
        Ok(())
    }

    /// Asks the guest for files, and waits for them.
    async fn collect(
        &mut self,
        paths: Vec<String>,
        deleted: &[String],
        store: &Store,
        capture: &mut Capture,
        output_bytes: u64,
    ) -> Result<Incoming, Option<Death>> {
        self.known.collections += 1;
        let id = self.known.collections;
        self.link.sender.queue(&ToGuest::Collect {
            id,
            paths: &paths,
            deleted,
        });
        let room = usize::try_from(store.limits().file_bytes).unwrap_or(usize::MAX);
        self.known.incoming = Some(Incoming::new(id, paths, room));
        let waited = timeout(COLLECT_LIMIT, self.until_collected(capture, output_bytes)).await;
        let incoming = self.known.incoming.take();
        match waited {
            Ok(Ok(())) => incoming.ok_or(None),
            Ok(Err(death)) => Err(Some(death)),
            Err(_) => Err(None),
        }
    }

    async fn until_collected(
        &mut self,
        capture: &mut Capture,
        output_bytes: u64,
    ) -> Result<(), Death> {
        let mut unwritable = false;
        while self
            .known
            .incoming
            .as_ref()
            .is_some_and(|incoming| !incoming.done)
        {
            tokio::select! {
                biased;
                result = self.link.sender.flush(), if self.link.sender.is_pending() && !unwritable => {
                    unwritable = result.is_err();
                }
                event = self.link.receiver.event() => {
                    self.hear(event, None, IDLE, capture, output_bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Puts what came on the disk. What could not be is asked for again after the next run.
    async fn keep(
        &mut self,
        incoming: Incoming,
        deleted: Vec<String>,
        store: &Arc<Store>,
        origin: Origin,
        notes: &mut Vec<String>,
    ) {
        let sent: Vec<String> = incoming
            .files
            .iter()
            .map(|(path, _)| path.clone())
            .collect();
        let (store, files) = (Arc::clone(store), incoming.files);
        self.finish_reading().await;
        let mut seen = std::mem::take(&mut self.known.seen);
        let kept = blocking(move || {
            let kept = store.keep(&files, &deleted, &mut seen, &origin);
            (kept, seen)
        });
        let mut lost: BTreeSet<String> = sent
            .into_iter()
            .chain(incoming.unread.iter().cloned())
            .collect();
        match kept.await {
            Some((Ok(kept), seen)) => {
                self.known.seen = seen;
                notes.extend(kept.notes);
                for path in &kept.files {
                    lost.remove(path);
                }
            }
            Some((Err(error), seen)) => {
                self.known.seen = seen;
                notes.push(format!(
                    "what this run left below /projects is not kept: {error}"
                ));
            }
            None => notes.push(
                "what this run left below /projects is not kept: the bridge is shutting down"
                    .to_owned(),
            ),
        }
        let unread = incoming
            .unread
            .iter()
            .map(|path| Store::refuse(path, "it could not be read"));
        notes.extend(unread);
        if !lost.is_empty() {
            let paths: Vec<String> = lost.into_iter().collect();
            self.link.sender.queue(&ToGuest::Forget { paths: &paths });
        }
    }
}

/// An update as the guest is told it.
fn to_wire(update: &Update) -> StateUpdate<'_> {
    let tools = update.tools.as_ref().map(|(saved, own)| {
        let saved = saved.iter();
        SavedTools {
            saved: saved
                .map(|tool| (tool.name.as_str(), tool.source.as_str()))
                .collect(),
            own,
        }
    });
    let files = update.files.iter().map(|file| StateFile {
        path: &file.path,
        bytes: &file.bytes,
        view: file.view,
    });
    StateUpdate {
        tools,
        files: files.collect(),
        gone: &update.gone,
        more: update.more,
    }
}

/// Work that may block; `None` where the bridge goes down.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
