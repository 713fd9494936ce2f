//! Project files: what a guest may leave, what it may not, and what two sessions do to one file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::super::{Limits, Part, Seen, Store, Update};
use super::{ALL, origin, store, store_with, to};

fn never(_: &str) -> bool {
    false
}

fn keep(store: &Store, seen: &mut Seen, files: &[(&str, &str)], deleted: &[&str]) -> Vec<String> {
    let files: Vec<(String, Vec<u8>)> = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
        .collect();
    let deleted: Vec<String> = deleted.iter().map(|path| (*path).to_owned()).collect();
    store.keep(&files, &deleted, seen, &origin()).unwrap().notes
}

/// What a new session is given, by path.
fn given(store: &Store) -> BTreeMap<String, String> {
    let update = store.update(&mut Seen::default(), ALL, &never);
    update
        .files
        .into_iter()
        .map(|file| (file.path, String::from_utf8(file.bytes).unwrap()))
        .collect()
}

#[test]
fn files_come_back_and_only_what_changed_is_told_again() {
    let (_root, store) = store();
    let mut seen = Seen::default();
    assert_eq!(
        keep(
            &store,
            &mut seen,
            &[("a.txt", "1"), ("data/deep/b.csv", "2")],
            &[]
        ),
        [""; 0]
    );
    store.memory().save("m", &to(1), &origin()).unwrap();
    store.tools().save("f", "def f(): pass", &origin()).unwrap();
    let mut other = Seen::default();
    let first = store.update(&mut other, ALL, &never);
    let paths: Vec<(&str, bool)> = first
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.view))
        .collect();
    assert_eq!(
        paths,
        [
            ("user_tools.py", true),
            ("memory/m.json", true),
            ("a.txt", false),
            ("data/deep/b.csv", false)
        ]
    );
    assert_eq!(first.tools.unwrap().0[0].name, "f");
    let nothing = store.update(&mut other, ALL, &never);
    assert_eq!(nothing, Update::default());
    keep(
        &store,
        &mut seen,
        &[("a.txt", "changed")],
        &["data/deep/b.csv"],
    );
    store.memory().delete("m").unwrap();
    let next = store.update(&mut other, ALL, &never);
    assert_eq!(
        next.files
            .iter()
            .map(|file| file.path.as_str())
            .collect::<Vec<_>>(),
        ["a.txt"]
    );
    assert_eq!(next.gone, ["memory/m.json", "data/deep/b.csv"]);
    assert!(
        !store.folder().join("data").exists(),
        "folders go with their last file"
    );
}

#[test]
fn tools_are_told_alone_with_a_word_of_the_files_there_are() {
    let (_root, store) = store();
    let tools = |seen: &mut Seen| store.update(seen, &[Part::Tools], &never);
    assert_eq!(tools(&mut Seen::default()), Update::default());
    let mut seen = Seen::default();
    keep(&store, &mut Seen::default(), &[("a.txt", "1")], &[]);
    let no_tools = tools(&mut seen);
    assert!(no_tools.more && no_tools.tools.is_none());
    store.tools().save("f", "def f(): pass", &origin()).unwrap();
    let first = tools(&mut seen);
    assert!(first.more && first.files.is_empty());
    assert_eq!(first.tools.unwrap().0[0].name, "f");
    // The tools do not come again with the files.
    let files = store.update(&mut seen, &[Part::Files], &never);
    let paths: Vec<&str> = files.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["user_tools.py", "a.txt"]);
    assert!(files.tools.is_none() && !files.more);
}

#[test]
fn what_holds_a_secret_does_not_reach_a_guest() {
    let (_root, store) = store();
    let mut seen = Seen::default();
    keep(
        &store,
        &mut seen,
        &[("env", "TOKEN=hunter22"), ("b", "fine")],
        &[],
    );
    store
        .memory()
        .save("m", &to("hunter22"), &origin())
        .unwrap();
    store
        .tools()
        .save("f", "def f(): return 'hunter22'", &origin())
        .unwrap();
    let update = store.update(&mut Seen::default(), ALL, &|text| text.contains("hunter22"));
    assert_eq!(
        update
            .files
            .iter()
            .map(|file| file.path.as_str())
            .collect::<Vec<_>>(),
        ["b"]
    );
    assert_eq!(update.tools, Some((vec![], String::new())));
    assert!(
        update
            .notes
            .iter()
            .any(|note| note.contains("/projects/env is left out")),
        "{:?}",
        update.notes
    );
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let (root, store) = store();
    let mut seen = Seen::default();
    let outside = root.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("x"), "theirs").unwrap();
    fs::create_dir_all(store.folder()).unwrap();
    symlink(&outside, store.folder().join("link")).unwrap();
    symlink(outside.join("x"), store.folder().join("file")).unwrap();
    let bad = [
        "../outside/x",
        "/etc/x",
        "link/x",
        "link/new",
        "file",
        "memory/x.json",
        "user_tools.py",
        "a\\..\\x",
        ".",
    ];
    for path in bad {
        let notes = keep(&store, &mut seen, &[(path, "mine")], &[path]);
        assert_eq!(notes.len(), 1, "{path}: {notes:?}");
        assert!(notes[0].contains("is not kept"), "{notes:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "theirs");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(given(&store), BTreeMap::new());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
}

#[test]
fn names_that_differ_by_capitals_only_are_refused() {
    let (_root, store) = store();
    let mut seen = Seen::default();
    let notes = keep(
        &store,
        &mut seen,
        &[("Read.me", "1"), ("READ.me", "2")],
        &[],
    );
    assert!(
        notes.len() == 1 && notes[0].contains("capitals"),
        "{notes:?}"
    );
    assert_eq!(
        given(&store),
        BTreeMap::from([("Read.me".to_owned(), "1".to_owned())])
    );
    assert_eq!(
        keep(&store, &mut seen, &[("READ.me", "2")], &["Read.me"]),
        [""; 0],
        "renamed"
    );
}

#[test]
fn quotas_hold_over_all_files() {
    let (_root, store) = store_with(Limits {
        file_bytes: 100,
        files: 3,
        ..Limits::default()
    });
    let mut seen = Seen::default();
    let big = "x".repeat(80);
    let notes = keep(
        &store,
        &mut seen,
        &[("a", &big), ("b", &big), ("c", "1")],
        &[],
    );
    assert!(
        notes.len() == 1 && notes[0].contains("/projects/b") && notes[0].contains("store_files"),
        "{notes:?}"
    );
    assert_eq!(keep(&store, &mut seen, &[("b", &big)], &["a"]), [""; 0]);
    keep(&store, &mut seen, &[("d", "1")], &[]);
    let notes = keep(&store, &mut seen, &[("e", "1")], &[]);
    assert!(
        notes.len() == 1 && notes[0].contains("store_file_count"),
        "{notes:?}"
    );
    let (chosen, notes) = store.choose(&[("f".to_owned(), u64::MAX)], &[]);
    assert!(chosen.is_empty() && notes.len() == 1);
}

#[test]
fn the_last_of_two_sessions_wins_and_what_it_had_not_seen_is_kept() {
    let (_root, store) = store();
    let (mut one, mut other) = (Seen::default(), Seen::default());
    keep(&store, &mut one, &[("a", "0")], &[]);
    store.update(&mut one, ALL, &never);
    store.update(&mut other, ALL, &never);
    assert_eq!(keep(&store, &mut one, &[("a", "of one")], &[]), [""; 0]);
    let notes = keep(&store, &mut other, &[("a", "of the other")], &[]);
    assert!(
        notes.len() == 1 && notes[0].contains("kept as .versions/files/a/"),
        "{notes:?}"
    );
    assert_eq!(given(&store)["a"], "of the other");
    let versions = store.folder().join(".versions/files/a");
    let version = fs::read_dir(versions)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(fs::read_to_string(version).unwrap(), "of one");
    // A session that has not seen the change does not delete the file.
    let notes = keep(&store, &mut one, &[], &["a"]);
    assert!(
        notes.len() == 1 && notes[0].contains("is kept on the host"),
        "{notes:?}"
    );
    assert_eq!(given(&store)["a"], "of the other");
    // The same text from both is not a conflict.
    assert_eq!(
        keep(&store, &mut Seen::default(), &[("a", "of the other")], &[]),
        [""; 0]
    );
}

#[test]
fn project_files_record_the_session_that_wrote_them() {
    let (root, store) = store();
    let path = root.path().join("user_tools/.versions/files.jsonl");
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(&path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let mut seen = Seen::default();
    keep(
        &store,
        &mut seen,
        &[("a\"b.txt", "one"), ("../x", "two")],
        &[],
    );
    assert!(
        keep(&store, &mut Seen::default(), &[], &["a\"b.txt"])[0].contains("is kept on the host")
    );
    keep(&store, &mut seen, &[], &["a\"b.txt", "none"]);
    let told = lines();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        (&told[0]["path"], &told[0]["size"]),
        (&to("a\"b.txt").value, &to(3).value)
    );
    assert_eq!(
        (&told[1]["path"], &told[1]["deleted"]),
        (&to("a\"b.txt").value, &to(true).value)
    );
    for line in told {
        assert_eq!(
            (line["session"].as_str(), line["run"].as_u64()),
            (Some("tests"), Some(7))
        );
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
    }
    // The journal is bounded.
    fs::write(&path, "{\"path\": \"old\"}\n".repeat(80_000)).unwrap();
    keep(&store, &mut seen, &[("new", "1")], &[]);
    let told = lines();
    assert!((39_000..41_000).contains(&told.len()), "{}", told.len());
    assert_eq!(told.last().unwrap()["path"], "new");
    // The journal does not disturb anything.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let notes = keep(&store, &mut seen, &[("newer", "1")], &[]);
    assert!(notes[0].contains("cannot record who wrote"), "{notes:?}");
    assert_eq!(given(&store)["newer"], "1");
}
