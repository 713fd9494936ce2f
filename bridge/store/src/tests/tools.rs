//! Saved tools in the file that users know.

use std::fs;

use super::super::{Error, Limits};
use super::{ALL, origin, store, store_with};

#[test]
fn a_tool_is_replaced_and_not_appended_twice_and_older_versions_are_kept() {
    let (root, store) = store();
    let tools = store.tools();
    assert_eq!(
        tools
            .save("f", "def f():\n    return 1\n", &origin())
            .unwrap(),
        1
    );
    assert_eq!(
        tools
            .save("f", "def f():\n    return 1\n", &origin())
            .unwrap(),
        1,
        "the same source is not a new version"
    );
    assert_eq!(
        tools
            .save("g", "async def g(x, *, y=1): return f()", &origin())
            .unwrap(),
        1
    );
    for number in 2..30 {
        assert!(
            tools
                .save("f", &format!("def f():\n    return {number}\n"), &origin())
                .unwrap()
                <= 21
        );
    }
    let text = fs::read_to_string(root.path().join("user_tools/user_tools.py")).unwrap();
    assert_eq!(text.matches("def f()").count(), 1);
    assert!(text.contains("    return 29\n"));
    let (listed, problems) = tools.list().unwrap();
    assert_eq!(problems, [""; 0]);
    let names: Vec<(&str, &str, usize)> = listed
        .iter()
        .map(|tool| (tool.name.as_str(), tool.signature.as_str(), tool.versions))
        .collect();
    assert_eq!(
        names,
        [
            ("f", "def f()", 20),
            ("g", "async def g(x, *, y=1): return f()", 0)
        ]
    );
    assert_eq!(listed[0].session, "tests");
    let last = fs::read_to_string(root.path().join("user_tools/.versions/tools/f/28.py")).unwrap();
    assert!(last.contains("return 28"));
    assert!(tools.delete("f").unwrap() && !tools.delete("f").unwrap());
    assert_eq!(tools.source("f").unwrap(), None);
    assert!(
        fs::read_to_string(root.path().join("user_tools/.versions/tools/f/29.py"))
            .unwrap()
            .contains("return 29")
    );
}

#[test]
fn file_that_is_not_text_is_not_touched() {
    let (root, store) = store();
    let path = root.path().join("user_tools/user_tools.py");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, b"x = '\xff'\n").unwrap();
    let error = store
        .tools()
        .save("f", "def f(): pass", &origin())
        .unwrap_err();
    assert!(
        matches!(&error, Error::BadToolFile { reason } if reason.contains("byte 6")),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"x = '\xff'\n");
    let update = store.update(&mut super::super::Seen::default(), ALL, &|_| false);
    assert_eq!(update.tools, Some((vec![], String::new())));
    assert!(update.notes[0].contains("not UTF-8"), "{:?}", update.notes);
}

#[test]
fn a_linked_file_stays_where_its_owner_keeps_it() {
    let (root, store) = store();
    let elsewhere = root.path().join("dotfiles.py");
    fs::write(&elsewhere, "MINE = 1\n").unwrap();
    fs::create_dir_all(root.path().join("user_tools")).unwrap();
    let path = root.path().join("user_tools/user_tools.py");
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    store.tools().save("f", "def f(): pass", &origin()).unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    let text = fs::read_to_string(&elsewhere).unwrap();
    assert!(text.starts_with("MINE = 1\n") && text.contains("def f(): pass\n"));
}

#[test]
fn number_of_tools_is_bounded() {
    let (_root, store) = store_with(Limits {
        tools: 2,
        ..Limits::default()
    });
    let save = |name: &str| {
        store
            .tools()
            .save(name, &format!("def {name}(): pass"), &origin())
    };
    save("a").unwrap();
    save("b").unwrap();
    assert!(save("c").unwrap_err().to_string().contains("store_tools"));
    store
        .tools()
        .save("a", "def a(): return 2", &origin())
        .unwrap();
}
