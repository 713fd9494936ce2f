//! Processes that are killed while they write, disks that are full, and several writers at once.
//!
//! The writers are this test program started again: [`child`] does what its environment says.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Change, Error, Expected, Limits, Seen, Store};
use super::{ALL, DIE_AT, origin, store, to, value};

const JOB: &str = "STORE_TEST_JOB";
const ROOT: &str = "STORE_TEST_ROOT";

/// This program again, with a job.
fn command(root: &Path, job: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["tests::faults::child", "--exact", "--nocapture"])
        .env(JOB, job)
        .env(ROOT, root)
        .stdout(Stdio::piped());
    command
}

/// Numbers that the child acknowledged, up to its end.
fn acknowledged(child: Child) -> Vec<u64> {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("ack ")?.parse().ok())
        .collect()
}

fn ack(number: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "ack {number}")
        .and_then(|()| out.flush())
        .unwrap();
}

/// Does nothing unless it was started by another test.
#[test]
fn child() {
    let (Ok(job), Some(root)) = (std::env::var(JOB), std::env::var_os(ROOT)) else {
        return;
    };
    let store = Store::new(Path::new(&root), Limits::default());
    // The test's own line has no end yet.
    writeln!(std::io::stdout()).unwrap();
    match job.as_str() {
        "three" => {
            for number in 1..=3 {
                write_all(&store, number);
                ack(number);
            }
        }
        "for ever" => {
            let first = value(store.memory().load("k").unwrap())
                .as_u64()
                .unwrap_or(0);
            for number in first + 1.. {
                store.memory().save("k", &to(number), &origin()).unwrap();
                ack(number);
            }
        }
        "increments" => (0..1_000).for_each(|_| increment(&store)),
        "writes" => {
            for number in 1..=1_000_u64 {
                store
                    .memory()
                    .save(&format!("k{}", number % 10), &to(number), &origin())
                    .unwrap();
                ack(number);
            }
        }
        "full" => {
            let large = "x".repeat(100_000);
            let full = |result: Result<(), Error>| matches!(result, Err(Error::Io { .. }));
            assert!(full(
                store
                    .memory()
                    .save("k", &to(large.as_str()), &origin())
                    .map(drop)
            ));
            assert!(full(
                store
                    .tools()
                    .save("f", &format!("def f(): '{large}'"), &origin())
                    .map(drop)
            ));
            let kept = store
                .keep(
                    &[("a".to_owned(), large.clone().into_bytes())],
                    &[],
                    &mut Seen::default(),
                    &origin(),
                )
                .unwrap();
            assert!(kept.files.is_empty() && kept.notes.len() == 1, "{kept:?}");
            store.memory().save("small", &to(1), &origin()).unwrap();
            ack(1);
        }
        other => panic!("no such job: {other}"),
    }
}

/// One write of each kind, with this number in it.
fn write_all(store: &Store, number: u64) {
    store.memory().save("k", &to(number), &origin()).unwrap();
    store.memory().save("gone", &to(number), &origin()).unwrap();
    store.memory().delete("gone").unwrap();
    store
        .tools()
        .save("f", &format!("def f(): return {number}"), &origin())
        .unwrap();
    let mut seen = Seen::default();
    store.update(&mut seen, ALL, &|_| false);
    let file = ("data/a".to_owned(), number.to_string().into_bytes());
    let kept = store.keep(&[file], &[], &mut seen, &origin()).unwrap();
    assert_eq!((kept.files.len(), kept.notes), (1, vec![]));
}

/// What the last acknowledged write left, or the one that was under way.
fn check(root: &Path, last: u64) {
    let store = Store::new(root, Limits::default());
    let near = |found: u64, what: &str| {
        assert!(
            found == last || found == last + 1,
            "{what} is {found}, and {last} was acknowledged"
        );
    };
    near(
        value(store.memory().load("k").unwrap())
            .as_u64()
            .unwrap_or(0),
        "the memory",
    );
    let source = store.tools().source("f").unwrap().unwrap_or_default();
    let number = source
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|text| text.parse().ok());
    near(number.unwrap_or(0), "the tool");
    let update = store.update(&mut Seen::default(), ALL, &|_| false);
    let file = update.files.iter().find(|file| file.path == "data/a");
    let number = file.map(|file| {
        String::from_utf8(file.bytes.clone())
            .unwrap()
            .parse()
            .unwrap()
    });
    near(number.unwrap_or(0), "the project file");
    let listing = store.memory().list().unwrap();
    assert!(
        listing.set_aside.is_empty() && listing.memories.len() <= 2,
        "{listing:?}"
    );
    assert_eq!(update.notes, [""; 0], "nothing is damaged");
    write_all(&store, last + 2);
}

#[test]
fn killed_between_any_two_steps_of_a_write_nothing_acknowledged_is_lost() {
    let mut died = 0;
    for step in 1.. {
        let root = tempfile::tempdir().unwrap();
        let mut command = command(root.path(), "three");
        let acknowledged = acknowledged(command.env(DIE_AT, step.to_string()).spawn().unwrap());
        check(root.path(), acknowledged.last().copied().unwrap_or(0));
        if acknowledged.len() == 3 {
            break;
        }
        died += 1;
    }
    assert!(died > 60, "{died} steps only");
}

#[test]
fn killed_at_any_moment_nothing_acknowledged_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let mut delays = 0x9e37_79b9_u64;
    let mut last = 0;
    for _ in 0..40 {
        let mut child = command(root.path(), "for ever").spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.starts_with("ack "));
        assert!(first.is_some(), "the child writes");
        delays = delays
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::park_timeout(Duration::from_micros((delays >> 33) % 8_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let rest = lines.map_while(Result::ok).chain(first);
        let numbers = rest.filter_map(|line| line.strip_prefix("ack ")?.parse::<u64>().ok());
        last = numbers.max().unwrap_or(0).max(last);
        let store = Store::new(root.path(), Limits::default());
        let found = value(store.memory().load("k").unwrap()).as_u64().unwrap();
        assert!(
            found == last || found == last + 1,
            "{found}, and {last} was acknowledged"
        );
        assert_eq!(store.memory().list().unwrap().set_aside, [""; 0]);
    }
}

fn increment(store: &Store) {
    let mut current = store.memory().load("n").unwrap();
    loop {
        let expected = current.as_ref().map_or(Expected::Nothing, |loaded| {
            Expected::Version(loaded.version.clone())
        });
        let next = value(current.take()).as_u64().unwrap_or(0) + 1;
        let change = Change {
            expected,
            ..to(next)
        };
        match store.memory().save("n", &change, &origin()) {
            Ok(_) => return,
            Err(Error::Conflict { current: now, .. }) => current = now.map(|now| *now),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn two_processes_of_a_thousand_increments_make_two_thousand() {
    let (root, store) = store();
    let children: Vec<Child> = (0..2)
        .map(|_| command(root.path(), "increments").spawn().unwrap())
        .collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_eq!(value(store.memory().load("n").unwrap()), 2_000);
}

#[test]
fn two_processes_of_a_thousand_writes_tear_nothing() {
    let (root, store) = store();
    let children: Vec<Child> = (0..2)
        .map(|_| command(root.path(), "writes").spawn().unwrap())
        .collect();
    for child in children {
        assert_eq!(acknowledged(child).len(), 1_000);
    }
    let listing = store.memory().list().unwrap();
    assert_eq!((listing.memories.len(), listing.set_aside.len()), (10, 0));
    for number in 0..10_u64 {
        let last = value(store.memory().load(&format!("k{number}")).unwrap())
            .as_u64()
            .unwrap();
        assert_eq!(last, if number == 0 { 1_000 } else { 990 + number });
    }
}

#[test]
fn on_a_full_disk_what_was_there_stays() {
    let (root, store) = store();
    write_all(&store, 1);
    let own = std::env::current_exe().unwrap();
    // No file may grow over 8 KiB: as on a full disk, a write ends in the middle.
    let shell = "trap '' XFSZ; ulimit -f 16; exec \"$0\" tests::faults::child --exact --nocapture";
    let child = Command::new("sh")
        .args(["-c", shell])
        .arg(own)
        .env(JOB, "full")
        .env(ROOT, root.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(acknowledged(child), [1]);
    assert_eq!(value(store.memory().load("k").unwrap()), 1);
    assert_eq!(value(store.memory().load("small").unwrap()), json!(1));
    assert_eq!(
        store.tools().source("f").unwrap().unwrap(),
        "def f(): return 1\n"
    );
    let names: Vec<Value> = std::fs::read_dir(store.folder().join("memory"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().into())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| !name.as_str().unwrap().starts_with(".mcb-")),
        "{names:?}"
    );
}
