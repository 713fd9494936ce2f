//! The runs that can be asked for by name: those under way, and for a while those that have ended,
//! so that a client whose answer was lost can come back for it.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use super::Run;
use crate::api::{Error, KEPT_FOR};
use crate::name::SessionName;
use bridge_common::Mutex;

/// Most results that are kept.
const KEPT: usize = 32;

/// Bytes of output that they may hold together; the latest is kept in any case, up to the limit on
/// output.
const KEPT_BYTES: usize = 32 << 20;

/// Time between two looks for results that have been kept for long enough.
const SWEEP: Duration = Duration::from_secs(60);

/// Instead of a name: the latest run of the session.
const LAST: &str = "last";

/// Runs that an error names.
const NAMED: usize = 5;

/// The runs of all sessions of one bridge.
#[derive(Default)]
pub(crate) struct RunTable(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// Runs in the order in which they were asked for.
    runs: VecDeque<Arc<Run>>,
    /// A task drops old results.
    is_swept: bool,
}

impl RunTable {
    /// Remembers a run under its name.
    pub(crate) fn add(self: &Arc<Self>, run: &Arc<Run>) {
        let mut entries = self.lock();
        entries.forget_old();
        entries.runs.push_back(Arc::clone(run));
        if !std::mem::replace(&mut entries.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// The run of this name, or the latest one of the session.
    pub(crate) fn find(&self, id: &str, session: Option<&str>) -> Result<Arc<Run>, Error> {
        let name = session
            .map(|session| SessionName::parse(Some(session)))
            .transpose()?;
        let mut entries = self.lock();
        entries.forget_old();
        let unknown = |entries: &Entries, session| Error::UnknownRun {
            id: id.chars().take(64).collect(),
            session,
            known: entries.names(),
        };
        if id == LAST {
            let name = name.map_or_else(|| SessionName::parse(None), Ok)?;
            let name = name.as_str();
            let latest = |run: &&Arc<Run>| run.session() == name;
            let found = entries.runs.iter().rev().find(latest).cloned();
            return found.ok_or_else(|| unknown(&entries, Some(name.to_owned())));
        }
        let found = entries.runs.iter().find(|run| run.id() == id).cloned();
        let found = found.ok_or_else(|| unknown(&entries, None))?;
        match name {
            Some(name) if found.session() != name.as_str() => Err(Error::RunElsewhere {
                id: id.to_owned(),
                session: found.session().to_owned(),
            }),
            _ => Ok(found),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock()
    }
}

impl Entries {
    /// Drops results that are too old, too many or too large, the oldest first.
    fn forget_old(&mut self) {
        let (mut count, mut bytes) = (0, 0);
        let mut keep: Vec<bool> = self
            .runs
            .iter()
            .rev()
            .map(|run| {
                let Some((age, size)) = run.kept() else {
                    return true;
                };
                count += 1;
                bytes += size;
                age < KEPT_FOR && (count == 1 || (count <= KEPT && bytes <= KEPT_BYTES))
            })
            .collect();
        self.runs.retain(|_| keep.pop().unwrap_or(true));
    }

    /// Those that a client may have meant, the latest first.
    fn names(&self) -> Vec<String> {
        let told = self.runs.iter().rev().filter(|run| run.is_left_running());
        let name = |run: &Arc<Run>| {
            let how = if run.is_ended() { "ended" } else { "running" };
            format!("{:?} ({how})", run.id())
        };
        told.map(name).take(NAMED).collect()
    }
}

/// Drops old results from time to time, until nothing is left to forget.
async fn sweep(runs: Weak<RunTable>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(runs) = runs.upgrade() else { return };
        let mut entries = runs.lock();
        entries.forget_old();
        if entries.runs.is_empty() {
            entries.is_swept = false;
            return;
        }
    }
}
