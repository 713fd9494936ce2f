//! What outlives a session, on its way: to a guest, and from it after each run.
//!
//! Saved tools are told before the first code. Files wait until the guest asks for them or nothing
//! else is to be done: there may be many, and few calls look at them. A guest names the files that
//! changed; the host chooses, asks for those, and answers the call when they are on its disk.

pub(crate) mod incoming;
pub(crate) mod out_files;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::incoming::Incoming;
use crate::run::notes::{NotKept, ProjectsNote};
use bridge_broker::Broker;
use bridge_store::{Origin, Part, Seen, Store, Update};
use bridge_wire::{
    ChangedFiles, FilePiece, Link, SavedTools, State, StateFile, StateUpdate, ToGuest,
};

/// Time after a run before files are read that the guest has not asked for: the next call may come
/// at once.
const CALM: Duration = Duration::from_millis(50);
/// Time that a guest has to send the files that it was asked for.
pub(crate) const COLLECT_LIMIT: Duration = Duration::from_secs(20);
/// Files of each kind that are looked at after one run.
const MOST_NAMED: usize = 10_000;
/// Notes about files in one answer.
const NOTES: usize = 5;

/// What a guest is to be told, and how much of what is kept it has then seen; `None` where reading
/// it panicked.
pub(crate) type ReadUpdate = Option<(Seen, Update)>;

/// What a guest knows of what is kept, and what is on its way to and from it.
pub(crate) struct GuestSync {
    broker: Arc<Broker>,
    seen: Seen,
    /// The guest was told that there are files, but not which.
    files_pending: bool,
    /// Files that are being read; `seen` is with them.
    reading: Option<JoinHandle<(Seen, Update)>>,
    /// Notes for the next answer.
    notes: Vec<ProjectsNote>,
    /// Notes of the last answer that still hold.
    told: BTreeSet<ProjectsNote>,
    incoming: Option<Incoming>,
    collections: u64,
}

impl GuestSync {
    /// The state of a guest that has not been told anything.
    pub(crate) fn new(broker: &Arc<Broker>) -> Self {
        Self {
            broker: Arc::clone(broker),
            seen: Seen::default(),
            files_pending: false,
            reading: None,
            notes: Vec::new(),
            told: BTreeSet::new(),
            incoming: None,
            collections: 0,
        }
    }

    /// Begins to read the files that the guest was not told of; false where there are none, or
    /// reading has begun.
    pub(crate) fn fetch(&mut self) -> bool {
        if !self.files_pending || self.reading.is_some() {
            return false;
        }
        let seen = std::mem::take(&mut self.seen);
        self.reading = Some(self.broker.begin_update(seen, &[Part::Files]));
        true
    }

    /// The files, once they are read; waits for ever where none are being read. May be dropped and
    /// called again.
    pub(crate) async fn read(&mut self) -> ReadUpdate {
        let Some(reading) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = reading.await;
        self.reading = None;
        read.ok()
    }

    /// The files, once they are read; begins to read them when the guest has been left alone for a
    /// moment.
    pub(crate) async fn read_when_calm(&mut self) -> ReadUpdate {
        if self.files_pending && self.reading.is_none() {
            sleep(CALM).await;
            self.fetch();
        }
        self.read().await
    }

    /// Tells the guest what is new since it was last told; files only where it has been told of all
    /// others. The frames go out with the next ones.
    pub(crate) async fn notify(&mut self, link: &mut Link) {
        self.finish_reading(link).await;
        let parts: &[Part] = if self.files_pending {
            &[Part::Tools]
        } else {
            &[Part::Tools, Part::Files]
        };
        let seen = std::mem::take(&mut self.seen);
        let update = self.broker.begin_update(seen, parts).await;
        self.take_update(link, update.ok());
    }

    /// Tells the guest of the files that it has not been told of.
    pub(crate) async fn notify_files(&mut self, link: &mut Link) {
        self.fetch();
        self.finish_reading(link).await;
    }

    /// Waits until nothing is being read.
    async fn finish_reading(&mut self, link: &mut Link) {
        if self.reading.is_some() {
            let read = self.read().await;
            self.take_update(link, read);
        }
    }

    /// Puts what was read behind the frames that wait.
    pub(crate) fn take_update(&mut self, link: &mut Link, read: ReadUpdate) {
        let (seen, update) = read.unwrap_or_else(|| {
            self.notes.push(ProjectsNote::NotRead);
            (Seen::default(), Update::default())
        });
        self.seen = seen;
        let awaited = std::mem::replace(&mut self.files_pending, update.more);
        for frame in State::frames(&to_wire(&update), awaited) {
            if link.sender.queue_bounded(&frame).is_err() {
                // A frame of this size is always taken.
                let _ = link.sender.queue_bounded(&frame.without_content());
                self.notes.push(ProjectsNote::DoesNotFit);
            }
        }
        let notes = update.notes.into_iter();
        self.notes.extend(notes.map(ProjectsNote::Store));
    }

    /// Takes the notes for an answer.
    pub(crate) fn take_notes(&mut self) -> Vec<ProjectsNote> {
        std::mem::take(&mut self.notes)
    }

    /// Adds notes that are news: what was said last time and still holds is not said again.
    pub(crate) fn note_news(&mut self, notes: Vec<ProjectsNote>) {
        let now: BTreeSet<ProjectsNote> = notes.iter().cloned().collect();
        let mut news: Vec<ProjectsNote> = notes
            .into_iter()
            .filter(|note| !self.told.contains(note))
            .collect();
        self.told = now;
        let more = news.len().saturating_sub(NOTES);
        news.truncate(NOTES);
        if more > 0 {
            news.push(ProjectsNote::MoreNotKept(more));
        }
        self.notes.append(&mut news);
    }

    /// Asks the guest for changed files, which may have `room` bytes together.
    pub(crate) fn begin_collection(&mut self, link: &mut Link, changes: &Changes, room: u64) {
        self.collections += 1;
        let id = self.collections;
        link.sender.queue(&ToGuest::Collect {
            id,
            paths: &changes.wanted,
            deleted: &changes.deleted,
        });
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        self.incoming = Some(Incoming::new(id, &changes.wanted, room));
    }

    /// Whether files that were asked for are still to come.
    pub(crate) fn is_collecting(&self) -> bool {
        let incoming = self.incoming.as_ref();
        incoming.is_some_and(|incoming| !incoming.done)
    }

    /// The files that have come, or have not.
    pub(crate) fn end_collection(&mut self) -> Option<Incoming> {
        self.incoming.take()
    }

    /// Takes a piece of a file; false where nobody asked for it.
    pub(crate) fn take_piece(&mut self, piece: FilePiece<'_>) -> bool {
        let incoming = self.incoming.as_mut();
        incoming.is_some_and(|incoming| incoming.take(piece))
    }

    /// The guest has sent all files; false where nobody asked.
    pub(crate) fn take_end(&mut self, id: u64) -> bool {
        let incoming = self.incoming.as_mut().filter(|incoming| incoming.id == id);
        incoming.is_some_and(|incoming| {
            incoming.done = true;
            true
        })
    }

    /// Puts what came on the disk. What could not be kept is asked for again after the next run.
    pub(crate) async fn keep(
        &mut self,
        link: &mut Link,
        incoming: Incoming,
        changes: &mut Changes,
        store: &Arc<Store>,
        origin: Origin,
    ) {
        let Incoming { files, unread, .. } = incoming;
        let sent = files.iter().map(|(path, _)| path.clone());
        let mut lost: BTreeSet<String> = sent.chain(unread.iter().cloned()).collect();
        self.finish_reading(link).await;
        let mut seen = std::mem::take(&mut self.seen);
        let (keeper, deleted) = (Arc::clone(store), std::mem::take(&mut changes.deleted));
        let kept = blocking(move || {
            let kept = keeper.keep(&files, &deleted, &mut seen, &origin);
            (kept, seen)
        });
        match kept.await {
            Ok((Ok(kept), seen)) => {
                self.seen = seen;
                changes.note_store(kept.notes);
                for path in &kept.files {
                    lost.remove(path);
                }
            }
            Ok((Err(error), seen)) => {
                self.seen = seen;
                changes.note_not_kept(NotKept::Store(error.to_string()));
            }
            Err(why) => changes.note_not_kept(why),
        }
        let unread = unread.iter();
        changes.note_store(unread.map(|path| Store::refuse(path, "it could not be read")));
        if !lost.is_empty() {
            let paths: Vec<String> = lost.into_iter().collect();
            link.sender.queue(&ToGuest::Forget { paths: &paths });
        }
    }
}

/// The project files that a run has changed, as far as they are to be kept.
pub(crate) struct Changes {
    /// Files that the guest is asked for.
    wanted: Vec<String>,
    /// Files that are gone.
    deleted: Vec<String>,
    /// What is to be said of the rest.
    pub(crate) notes: Vec<ProjectsNote>,
}

impl Changes {
    /// Chooses from what the guest names.
    pub(crate) async fn choose(files: ChangedFiles, store: &Arc<Store>) -> Self {
        let ChangedFiles {
            mut changed,
            mut deleted,
            mut odd,
        } = files;
        // An honest guest names fewer; one that lies is not worth the memory.
        changed.truncate(MOST_NAMED);
        deleted.truncate(MOST_NAMED);
        odd.truncate(MOST_NAMED);
        let mut changes = Self {
            wanted: Vec::new(),
            deleted: deleted.clone(),
            notes: Vec::new(),
        };
        changes.note_store(odd.iter().map(|(path, why)| Store::refuse(path, why)));
        let store = Arc::clone(store);
        match blocking(move || store.choose(&changed, &deleted)).await {
            Ok((wanted, refused)) => {
                changes.wanted = wanted;
                changes.note_store(refused);
            }
            Err(why) => changes.note_not_kept(why),
        }
        changes
    }

    /// Whether there is nothing to keep and nothing to delete.
    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.deleted.is_empty()
    }

    fn note_store(&mut self, notes: impl IntoIterator<Item = String>) {
        self.notes
            .extend(notes.into_iter().map(ProjectsNote::Store));
    }

    /// Nothing of it is kept.
    pub(crate) fn note_not_kept(&mut self, why: NotKept) {
        self.notes.push(ProjectsNote::NotKept(why));
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

/// Does work that may block. The error tells a bridge that is going down from a panic, which must
/// not go unsaid.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotKept> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        if error.is_panic() {
            NotKept::Fault
        } else {
            NotKept::ShuttingDown
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_blocking_work_is_told_from_a_shutdown() {
        let failed: Result<(), NotKept> = blocking(|| panic!("a fault")).await;
        assert_eq!(failed, Err(NotKept::Fault));
        assert_eq!(blocking(|| 1).await, Ok(1));
    }
}
