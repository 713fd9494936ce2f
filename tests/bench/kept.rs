//! Memories and saved tools: writes beside a raw write, listing, and what they add to the start of
//! a session.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::{Duration, Instant};

use bridge_store::{Change, Limits, Origin, Store};
use integration_tests::EngineUnderTest;
use integration_tests::bridge::Builder;
use serde_json::json;

use crate::measure::median;

/// The number of memories and tools of a user who has saved much.
const MEMORIES: usize = 1_000;
const TOOLS: usize = 100;

/// Saves a memory, and writes and syncs a file of the same size, in turns.
pub(crate) fn writes(rounds: usize) -> (f64, f64) {
    let root = tempfile::tempdir().expect("a temporary folder can be made");
    let store = Store::new(root.path(), Limits::default());
    fill(&store);
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let value = json!({"n": round, "text": "x".repeat(200)});
        let bytes = value.to_string();
        let begun = Instant::now();
        let change = Change {
            value,
            ..Change::default()
        };
        store
            .memory()
            .save(&format!("k{}", round % 50), &change, &Origin::default())
            .expect("a memory can be saved");
        ours.push(begun.elapsed());
        let begun = Instant::now();
        let mut file = File::create(root.path().join("raw")).expect("a file can be made");
        file.write_all(bytes.as_bytes()).expect("and written");
        file.sync_all().expect("and synced");
        raw.push(begun.elapsed());
    }
    (median(ours), median(raw))
}

/// Lists all keys in a bridge that has not read them before.
pub(crate) fn listing(rounds: usize) -> f64 {
    let root = tempfile::tempdir().expect("a temporary folder can be made");
    fill(&Store::new(root.path(), Limits::default()));
    let once = || {
        let store = Store::new(root.path(), Limits::default());
        let begun = Instant::now();
        let listing = store.memory().list().expect("they can be listed");
        assert_eq!(listing.memories.len(), MEMORIES);
        begun.elapsed()
    };
    median((0..rounds).map(|_| once()).collect())
}

/// First calls of new bridges with much and with nothing saved, in turns, and then those of second
/// sessions, which take the spare guest.
pub(crate) struct Starts {
    pub(crate) much: f64,
    pub(crate) nothing: f64,
    pub(crate) spare_much: f64,
    pub(crate) spare_nothing: f64,
}

pub(crate) fn starts(engine: &EngineUnderTest, rounds: usize) -> Starts {
    let root = tempfile::tempdir().expect("a temporary folder can be made");
    fs::set_permissions(
        root.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("its mode can be set");
    let (much, nothing) = (root.path().join("much"), root.path().join("nothing"));
    fill(&Store::new(&much, Limits::default()));
    fs::create_dir_all(&nothing).expect("a folder can be made");
    for folder in [&much, &nothing] {
        give(folder, engine);
    }
    let mut series: [Vec<Duration>; 4] = Default::default();
    for _ in 0..rounds {
        for (place, state) in [&much, &nothing].into_iter().enumerate() {
            let state = state.display().to_string();
            let mut bridge = Builder::new(Some(engine))
                .variable("MCP_BRIDGE_STATE_DIR", state)
                .start();
            let begun = Instant::now();
            bridge.run("print(1)").succeeded();
            series[place].push(begun.elapsed());
            // Nothing shows that the spare guest is ready; a second is more than it needs.
            std::thread::park_timeout(Duration::from_secs(1));
            let begun = Instant::now();
            bridge
                .call(&json!({"code": "print(1)", "session": "second"}))
                .succeeded();
            series[place + 2].push(begun.elapsed());
        }
    }
    let [much, nothing, spare_much, spare_nothing] = series.map(median);
    Starts {
        much,
        nothing,
        spare_much,
        spare_nothing,
    }
}

fn fill(store: &Store) {
    for number in 0..MEMORIES {
        let change = Change {
            value: json!({"n": number, "text": "x".repeat(200)}),
            ..Change::default()
        };
        store
            .memory()
            .save(&format!("k{number}"), &change, &Origin::default())
            .expect("a memory can be saved");
    }
    for number in 0..TOOLS {
        let lines = "    x = x + 1\n".repeat(20);
        let source = format!("import re\n\n\ndef tool{number}(x):\n{lines}    return x\n");
        store
            .tools()
            .save(&format!("tool{number}"), &source, &Origin::default())
            .expect("a tool can be saved");
    }
}

fn give(folder: &Path, engine: &EngineUnderTest) {
    let Some(user) = engine.user else { return };
    chown(folder, Some(user.uid), Some(user.gid)).expect("root may do that");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            give(&entry.path(), engine);
        } else {
            chown(entry.path(), Some(user.uid), Some(user.gid)).expect("root may do that");
        }
    }
}
