//! What the sessions of one bridge have in common.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, MutexGuard};

use crate::guest::start::{Launcher, Starting};
use crate::name::SessionName;
use crate::run::notes::Loss;
use crate::run::queue::Queue;
use crate::run::table::RunTable;
use crate::sync::out_files::OutputFiles;
use bridge_broker::Broker;
use bridge_common::Mutex;
use bridge_settings::{Limits, SessionSettings};

/// Losses of sessions that are remembered, for the note in the next answer.
const LOSSES: usize = 256;

/// What the sessions of one bridge have in common.
pub(crate) struct Shared {
    /// Starts guests for all sessions.
    pub(crate) launcher: Launcher,
    /// Answers requests of guests.
    pub(crate) broker: Arc<Broker>,
    /// What one guest may use.
    pub(crate) limits: Limits,
    /// How long runs and sessions live.
    pub(crate) settings: SessionSettings,
    /// Runs that can be found by name.
    pub(crate) runs: Arc<RunTable>,
    /// Files that guests offer.
    pub(crate) output_files: OutputFiles,
    /// Which sessions there are.
    pub(crate) registry: Mutex<Registry>,
}

/// Which sessions there are, what became of earlier ones, and the spare guest.
#[derive(Default)]
pub(crate) struct Registry {
    /// The queue of each session.
    pub(crate) sessions: BTreeMap<SessionName, Arc<Queue>>,
    losses: VecDeque<(SessionName, Loss)>,
    spare: Option<Starting>,
}

impl Registry {
    /// Why the previous session of this name lost its variables; told once.
    pub(crate) fn take_loss(&mut self, name: &SessionName) -> Option<Loss> {
        let found = self.losses.iter().position(|(ended, _)| ended == name)?;
        self.losses.remove(found).map(|(_, loss)| loss)
    }

    fn note_loss(&mut self, name: &SessionName, loss: Loss) {
        self.losses.push_back((name.clone(), loss));
        if self.losses.len() > LOSSES {
            self.losses.pop_front();
        }
    }
}

impl Shared {
    /// A session has ended; `loss` is for the note of its successor.
    pub(crate) fn forget(&self, name: &SessionName, queue: &Arc<Queue>, loss: Option<Loss>) {
        let mut registry = self.lock();
        let current = registry.sessions.get(name);
        if current.is_some_and(|current| Arc::ptr_eq(current, queue)) {
            registry.sessions.remove(name);
            if let Some(loss) = loss {
                registry.note_loss(name, loss);
            }
        }
        if registry.sessions.is_empty() {
            drop(registry);
            self.discard_spare();
        }
    }

    /// Takes the spare guest, if there is one.
    pub(crate) fn take_spare(&self) -> Option<Starting> {
        self.lock().spare.take()
    }

    /// Begins to start a guest for a session.
    pub(crate) fn start(&self, name: &SessionName) -> Starting {
        Starting::new(&self.launcher, Some(name.as_str()))
    }

    /// Begins to start a spare guest where one is wanted and none is there.
    pub(crate) fn refill(&self) {
        let mut registry = self.lock();
        let wanted = self.settings.spare && !self.launcher.closing.is_cancelled();
        if wanted && registry.spare.is_none() {
            registry.spare = Some(Starting::new(&self.launcher, None));
        }
    }

    /// Kills the spare guest, if there is one.
    pub(crate) fn discard_spare(&self) {
        if let Some(spare) = self.take_spare() {
            self.launcher.tasks.spawn(spare.discard());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }
}
