//! Memories that other programs have written: their names, their numbers, and what they do not tell.

use std::fs;

use serde_json::{Value, json};

use super::memory::{file, keys, old_record, put};
use super::{origin, store, to, value};

#[test]
fn old_names_are_read_and_written_where_the_key_inside_matches() {
    let (root, store) = store();
    put(root.path(), "a_b.json", &old_record("a b", &json!("old")));
    assert_eq!(value(store.memory().load("a b").unwrap()), "old");
    assert_eq!(value(store.memory().load("a_b").unwrap()), Value::Null);
    assert_eq!(value(store.memory().load("a/b").unwrap()), Value::Null);
    for key in ["a b", "a_b", "a/b", "a.b", "A b"] {
        store.memory().save(key, &to(key), &origin()).unwrap();
    }
    for key in ["a b", "a_b", "a/b", "a.b", "A b", " a b\t"] {
        assert_eq!(value(store.memory().load(key).unwrap()), key.trim());
    }
    let old: Value =
        serde_json::from_str(&fs::read_to_string(file(root.path(), "a_b.json")).unwrap()).unwrap();
    assert_eq!(
        (&old["key"], &old["value"]),
        (&json!("a b"), &json!("a b")),
        "older programs find it still"
    );
    assert_eq!(keys(&store), ["A b", "a b", "a.b", "a/b", "a_b"]);
    assert!(store.memory().delete("a b").unwrap().is_some());
    assert!(store.memory().delete("a b").unwrap().is_none());
    assert_eq!(value(store.memory().load("a_b").unwrap()), "a_b");
}

#[test]
fn every_listed_memory_can_be_loaded_by_its_key() {
    let (root, store) = store();
    put(
        root.path(),
        "my notes.json",
        &old_record("notes of mine", &json!(1)),
    );
    put(root.path(), "Other.json", &old_record("other", &json!(2)));
    let memory = store.memory();
    assert_eq!(keys(&store), ["notes of mine", "other"]);
    assert_eq!(value(memory.load("other").unwrap()), json!(2));
    assert_eq!(value(memory.load("notes of mine").unwrap()), json!(1));
    let saved = memory.save("other", &to(3), &origin()).unwrap();
    assert_eq!((saved.file.as_str(), saved.new), ("Other.json", false));
    assert_eq!(
        memory.delete("notes of mine").unwrap().as_deref(),
        Some("my notes.json")
    );
    assert!(memory.load("notes of mine").unwrap().is_none());
    // The name of a file is not a key.
    assert!(memory.load("Other").unwrap().is_none());
}

#[test]
fn numbers_as_python_writes_them_are_readable() {
    let (root, store) = store();
    let text = r#"{"key": "loss", "value": [NaN, Infinity, -Infinity, "NaN \" Infinity"], "metadata": {}, "own": NaN}"#;
    put(root.path(), "loss.json", text);
    let loaded = store.memory().load("loss").unwrap().unwrap();
    assert_eq!(
        loaded.value.get(),
        r#"[null, 1e999, -1e999, "NaN \" Infinity"]"#
    );
    assert_eq!(store.memory().list().unwrap().memories.len(), 1);
    assert!(
        fs::read_to_string(file(root.path(), "loss.json"))
            .unwrap()
            .contains("NaN")
    );
}

#[test]
fn missing_times_are_the_modification_time_of_the_file() {
    let (root, store) = store();
    put(
        root.path(),
        "bare.json",
        r#"{"value": 1, "created_at": "soon"}"#,
    );
    let path = file(root.path(), "bare.json");
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::new(1_600_000_000, 500_000_000);
    let handle = fs::File::options().write(true).open(path).unwrap();
    handle.set_modified(long_ago).unwrap();
    let loaded = store.memory().load("bare").unwrap().unwrap();
    let listed = &store.memory().list().unwrap().memories[0];
    for time in [
        &loaded.created_at,
        &loaded.updated_at,
        &listed.created_at,
        &listed.updated_at,
    ] {
        assert_eq!(*time, json!(1_600_000_000.5));
    }
}
