//! The runs that can be asked for by name: those under way, and for a while those that have ended, so that a client whose
//! answer was lost can come back for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::Error;
use super::name::SessionName;
use super::run::Run;

/// How long the result of a run is kept.
pub const KEPT_FOR: Duration = Duration::from_secs(600);

/// Results that are kept.
const KEPT: usize = 32;

/// Bytes of output that they may hold together; the latest is kept in any case, up to the limit on output.
const KEPT_BYTES: usize = 32 << 20;

/// How often it is looked whether one has been kept for long enough.
const SWEEP: Duration = Duration::from_secs(60);

/// Instead of a name: the latest run of the session.
const LAST: &str = "last";

/// Runs that an error names.
const NAMED: usize = 5;

/// All runs of some sessions.
#[derive(Default)]
pub(super) struct Runs(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// In the order in which they were asked for.
    runs: VecDeque<Arc<Run>>,
    is_swept: bool,
}

impl Runs {
    /// Remembers a run.
    pub(super) fn add(self: &Arc<Self>, run: &Arc<Run>) {
        let mut known = self.lock();
        known.forget_old();
        known.runs.push_back(Arc::clone(run));
        if !std::mem::replace(&mut known.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// The run of this name, or the latest one of the session.
    pub(super) fn find(&self, id: &str, session: Option<&str>) -> Result<Arc<Run>, Error> {
        let name = session
            .map(|session| SessionName::parse(Some(session)))
            .transpose()?;
        let mut known = self.lock();
        known.forget_old();
        let unknown = |known: &Known, session| Error::UnknownRun {
            id: id.chars().take(64).collect(),
            session,
            known: known.names(),
        };
        if id == LAST {
            let name = name.map_or_else(|| SessionName::parse(None), Ok)?;
            let name = name.as_str();
            let latest = |run: &&Arc<Run>| run.session() == name;
            let found = known.runs.iter().rev().find(latest).cloned();
            return found.ok_or_else(|| unknown(&known, Some(name.to_owned())));
        }
        let found = known.runs.iter().find(|run| run.id() == id).cloned();
        let found = found.ok_or_else(|| unknown(&known, None))?;
        match name {
            Some(name) if found.session() != name.as_str() => Err(Error::RunElsewhere {
                id: id.to_owned(),
                session: found.session().to_owned(),
            }),
            _ => Ok(found),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
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

/// Until nothing is left to forget.
async fn sweep(runs: Weak<Runs>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(runs) = runs.upgrade() else { return };
        let mut known = runs.lock();
        known.forget_old();
        if known.runs.is_empty() {
            known.is_swept = false;
            return;
        }
    }
}
