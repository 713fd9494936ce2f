//! Memories: the files of the predecessor, keys of every kind, quotas, and files that are none.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Change, Error, Expected, Limits, Store};
use super::{origin, store, store_with, to, value};

pub(super) fn file(root: &Path, name: &str) -> std::path::PathBuf {
    root.join("user_tools/memory").join(name)
}

pub(super) fn old_record(key: &str, value: &Value) -> String {
    json!({"key": key, "value": value, "metadata": {"tag": "a"}, "created_at": 1.5, "updated_at": 2.5}).to_string()
}

pub(super) fn put(root: &Path, name: &str, text: &str) {
    fs::create_dir_all(root.join("user_tools/memory")).unwrap();
    fs::write(file(root, name), text).unwrap();
    // Old enough to be what its writer wanted it to be.
    let old = fs::File::open(file(root, name)).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
}

pub(super) fn keys(store: &Store) -> Vec<String> {
    let listing = store.memory().list().unwrap();
    listing.memories.into_iter().map(|info| info.key).collect()
}

#[test]
fn the_file_is_the_one_that_users_know_with_provenance_behind() {
    let (root, store) = store();
    let change = Change {
        metadata: Some(json!({"tag": "x"})),
        ..to(serde_json::from_str::<Value>(r#"{"b": [1, 2.50], "a": null}"#).unwrap())
    };
    let saved = store.memory().save("notes", &change, &origin()).unwrap();
    assert!(saved.new && saved.file == "notes.json");
    let text = fs::read_to_string(file(root.path(), "notes.json")).unwrap();
    assert_eq!(text, saved.text);
    let record: Value = serde_json::from_str(&text).unwrap();
    let fields: Vec<&str> = record
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        fields,
        [
            "key",
            "value",
            "metadata",
            "created_at",
            "updated_at",
            "provenance"
        ]
    );
    assert!(text.starts_with("{\n  \"key\": \"notes\",\n  \"value\": {\n    \"b\": [\n      1,\n      2.50\n    ],\n    \"a\": null\n  },\n"), "{text}");
    assert!(record["created_at"].as_f64().unwrap() > 1e9);
    assert_eq!(
        (
            &record["provenance"]["session"],
            &record["provenance"]["run"]
        ),
        (&json!("tests"), &json!(7))
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(file(root.path(), "notes.json"))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn metadata_and_the_first_time_are_kept_when_a_value_is_overwritten() {
    let (root, store) = store();
    put(root.path(), "notes.json", &json!({"key": "notes", "value": 1, "metadata": {"tag": "a"}, "created_at": 1.5, "updated_at": 2.5, "mine": [1]}).to_string());
    store.memory().save("notes", &to(2), &origin()).unwrap();
    let record: Value =
        serde_json::from_str(&fs::read_to_string(file(root.path(), "notes.json")).unwrap())
            .unwrap();
    assert_eq!(
        (&record["value"], &record["metadata"], &record["created_at"]),
        (&json!(2), &json!({"tag": "a"}), &json!(1.5))
    );
    assert_eq!(
        record["mine"],
        json!([1]),
        "what somebody else put there stays"
    );
    let change = Change {
        metadata: Some(json!({})),
        ..to(3)
    };
    store.memory().save("notes", &change, &origin()).unwrap();
    assert_eq!(
        store.memory().load("notes").unwrap().unwrap().metadata,
        json!({})
    );
}

#[test]
fn numbers_of_any_size_and_the_order_of_keys_survive() {
    let (_root, store) = store();
    let text = r#"{"z":123456789012345678901234567890,"a":[1.10,1e+400,-0.0],"m":{"y":1,"b":2}}"#;
    store
        .memory()
        .save(
            "n",
            &to(serde_json::from_str::<Value>(text).unwrap()),
            &origin(),
        )
        .unwrap();
    let loaded = store.memory().load("n").unwrap().unwrap();
    let compact: Value = serde_json::from_str(loaded.value.get()).unwrap();
    assert_eq!(compact.to_string(), text);
}

#[test]
fn a_change_with_a_version_is_made_only_if_nothing_has_changed() {
    let (_root, store) = store();
    let expecting = |value: i32, expected| Change {
        expected,
        ..to(value)
    };
    let first = store
        .memory()
        .save("n", &expecting(1, Expected::Nothing), &origin())
        .unwrap();
    let again = store
        .memory()
        .save("n", &expecting(5, Expected::Nothing), &origin());
    assert!(
        matches!(again, Err(Error::Conflict { current: Some(current), .. }) if current.version == first.version)
    );
    let second = store
        .memory()
        .save(
            "n",
            &expecting(2, Expected::Version(first.version.clone())),
            &origin(),
        )
        .unwrap();
    assert!(matches!(
        store.memory().save(
            "n",
            &expecting(3, Expected::Version(first.version)),
            &origin()
        ),
        Err(Error::Conflict { .. })
    ));
    store.memory().delete("n").unwrap();
    let gone = store.memory().save(
        "n",
        &expecting(3, Expected::Version(second.version)),
        &origin(),
    );
    assert!(matches!(gone, Err(Error::Conflict { current: None, .. })));
}

#[test]
fn files_that_are_not_memories_are_set_aside_and_named() {
    let (root, store) = store();
    store.memory().save("good", &to(1), &origin()).unwrap();
    put(root.path(), "torn.json", "{\"key\": \"torn\", \"val");
    put(root.path(), "empty.json", "");
    put(root.path(), "list.json", "[1]");
    put(root.path(), "bytes.json", "{\"value\": \"\u{0}\"}");
    put(
        root.path(),
        "by_hand.json",
        "\u{feff}{\"value\": {\"x\": 1}}",
    );
    put(
        root.path(),
        "surrogate.json",
        r#"{"key": "surrogate", "value": "\ud800"}"#,
    );
    let error = store.memory().load("torn").unwrap_err();
    assert!(
        matches!(&error, Error::SetAside { key, file, .. } if key == "torn" && file.starts_with("torn.json.corrupt-")),
        "{error}"
    );
    assert!(
        store.memory().load("torn").unwrap().is_none(),
        "said once; the file is kept"
    );
    let listing = store.memory().list().unwrap();
    let keys: Vec<&str> = listing
        .memories
        .iter()
        .map(|info| info.key.as_str())
        .collect();
    assert_eq!(keys, ["by_hand", "good", "surrogate"]);
    assert_eq!(listing.set_aside.len(), 4, "{:?}", listing.set_aside);
    let kept = fs::read_to_string(file(root.path(), &listing.set_aside[3])).unwrap();
    assert_eq!(kept, "{\"key\": \"torn\", \"val");
    assert_eq!(
        value(store.memory().load("by_hand").unwrap()),
        json!({"x": 1})
    );
    assert_eq!(
        store
            .memory()
            .load("surrogate")
            .unwrap()
            .unwrap()
            .value
            .get(),
        r#""\ud800""#
    );
    store.memory().save("torn", &to(2), &origin()).unwrap();
    assert_eq!(value(store.memory().load("torn").unwrap()), 2);
}

#[test]
fn pipes_and_folders_in_the_place_of_a_memory_do_not_hang() {
    let (root, store) = store();
    fs::create_dir_all(file(root.path(), "folder.json")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(file(root.path(), "pipe.json"))
        .status()
        .unwrap();
    assert!(made.success());
    for key in ["folder", "pipe"] {
        assert!(
            matches!(store.memory().load(key), Err(Error::Io { .. })),
            "{key}"
        );
        assert!(
            matches!(
                store.memory().save(key, &to(1), &origin()),
                Err(Error::Io { .. })
            ),
            "{key}"
        );
    }
    assert_eq!(store.memory().list().unwrap().memories, []);
}

#[test]
fn quotas_hold_and_say_which_setting_they_are() {
    let limits = Limits {
        value_bytes: 1_000,
        memory_bytes: 2_500,
        memories: 3,
        ..Limits::default()
    };
    let (_root, store) = store_with(limits);
    let text = |length: usize| to("x".repeat(length));
    let save = |key: &str, length: usize| store.memory().save(key, &text(length), &origin());
    let refused = |key: &str, length: usize| save(key, length).unwrap_err().to_string();
    save("a", 900).unwrap();
    assert!(refused("b", 1_000).contains("store_value"));
    save("b", 600).unwrap();
    assert!(refused("c", 900).contains("store_memory"));
    save("a", 950).unwrap();
    save("c", 10).unwrap();
    assert!(refused("d", 10).contains("store_memory_count"));
    store.memory().delete("c").unwrap();
    save("d", 10).unwrap();
    assert_eq!(store.memory().list().unwrap().memories.len(), 3);
}

#[test]
fn a_thousand_are_listed_fast_and_what_others_change_is_seen() {
    let (root, store) = store();
    for number in 0..1_000 {
        put(
            root.path(),
            &format!("k{number:04}.json"),
            &old_record(&format!("k{number:04}"), &json!({"n": number})),
        );
    }
    assert_eq!(store.memory().list().unwrap().memories.len(), 1_000);
    let other = Store::new(root.path(), Limits::default());
    other
        .memory()
        .save("k0500", &to("changed"), &origin())
        .unwrap();
    other.memory().delete("k0000").unwrap();
    let listing = store.memory().list().unwrap();
    assert_eq!(listing.memories.len(), 999);
    let changed = listing
        .memories
        .iter()
        .find(|info| info.key == "k0500")
        .unwrap();
    assert_eq!(changed.provenance["session"], "tests");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_saved_under_any_key_comes_back(keys in proptest::collection::btree_set("[ -~\u{e9}\u{4e00}]{1,120}", 1..6)) {
        let (_root, store) = store();
        let keys: std::collections::BTreeSet<String> = keys.iter().map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).collect();
        for key in &keys {
            store.memory().save(key, &to(key.as_str()), &origin()).unwrap();
        }
        for key in &keys {
            prop_assert_eq!(value(store.memory().load(key).unwrap()), key.as_str());
        }
        prop_assert_eq!(store.memory().list().unwrap().memories.len(), keys.len());
    }
}
