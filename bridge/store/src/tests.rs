//! The store's promises: its rules, its bounds, and what happens when a writing process is killed.

mod faults;
mod files;
mod memory;
mod old_memories;
mod tools;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::{Change, Limits, Loaded, Origin, Part, Store};

const ALL: &[Part] = &[Part::Tools, Part::Files];
/// The number of the step at which a process is to be killed, set for children only.
const DIE_AT: &str = "STORE_TEST_DIE_AT";

static STEPS: AtomicUsize = AtomicUsize::new(0);

/// A step of a write. A child that was told to dies here as by SIGKILL: nothing of the process runs any more.
pub(super) fn step(_: &str) {
    let number = STEPS.fetch_add(1, Ordering::SeqCst) + 1;
    let die_at = std::env::var(DIE_AT)
        .ok()
        .and_then(|text| text.parse().ok());
    if die_at == Some(number) {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
}

fn origin() -> Origin {
    Origin {
        session: "tests".to_owned(),
        run: 7,
    }
}

fn to(value: impl Into<Value>) -> Change {
    Change {
        value: value.into(),
        ..Change::default()
    }
}

fn value(loaded: Option<Loaded>) -> Value {
    loaded.map_or(Value::Null, |loaded| {
        serde_json::from_str(loaded.value.get()).unwrap()
    })
}

/// A store of its own.
fn store() -> (tempfile::TempDir, Store) {
    store_with(Limits::default())
}

fn store_with(limits: Limits) -> (tempfile::TempDir, Store) {
    let root = tempfile::tempdir().unwrap();
    let store = Store::new(root.path(), limits);
    (root, store)
}
