//! Names of project files as a guest gives them: relative, plain, and the same file on every system.

use std::ffi::OsStr;

/// The longest part and the longest path, in bytes.
const LONGEST_PART: usize = 200;
const LONGEST: usize = 1_000;
const DEEPEST: usize = 16;

/// Names at the top of the folder that are not project files.
const TAKEN: [&str; 4] = ["memory", "user_tools.py", ".versions", ".lock"];

/// Why a project file cannot have this name; `None` if it can.
pub(super) fn problem(path: &str) -> Option<&'static str> {
    if path.len() > LONGEST {
        return Some("its name is too long");
    }
    let parts: Vec<&str> = path.split('/').collect();
    if parts.len() > DEEPEST {
        return Some("it lies too deep");
    }
    if parts
        .iter()
        .any(|part| part.is_empty() || *part == "." || *part == "..")
    {
        return Some("its name is not a path below /projects");
    }
    if parts.iter().any(|part| part.len() > LONGEST_PART) {
        return Some("its name is too long");
    }
    if path.contains('\\')
        || path
            .chars()
            .any(|character| character.is_control() || is_mark(character))
    {
        return Some("its name has characters that no file should have");
    }
    if parts
        .iter()
        .any(|part| part.starts_with(super::write::TEMPORARY))
    {
        return Some("its name is one of those that the bridge uses itself");
    }
    let top = parts.first().map(|part| folded(part)).unwrap_or_default();
    match top.as_str() {
        "memory" => Some("memories are written with save_memory"),
        "user_tools.py" => Some("saved tools are written with save_tool"),
        _ if TAKEN.contains(&top.as_str()) => {
            Some("its name is one of those that the bridge uses itself")
        }
        _ => None,
    }
}

/// Whether this name at the top of the folder is not a project file.
pub(super) fn is_taken(name: &str) -> bool {
    TAKEN.contains(&folded(name).as_str())
}

/// Whether this name at the top of the folder belongs to the store: guests never see it.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name == ".versions" || name == ".lock"
}

/// The name as a file system without case sensitivity sees it.
pub(super) fn folded(path: &str) -> String {
    path.to_lowercase()
}

/// Characters that change the direction of text or are invisible.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names() {
        for good in [
            "a",
            "data/x.csv",
            "Ünï/ço de.txt",
            ".hidden",
            "a b",
            "memory2",
            "x/memory",
            "-",
            "...",
            "a:b",
        ] {
            assert_eq!(problem(good), None, "{good:?}");
        }
        let deep = "a/".repeat(DEEPEST) + "a";
        let long = "x".repeat(LONGEST_PART + 1);
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a//b",
            "a/",
            "./a",
            "a\\b",
            "a\nb",
            "a\0",
            "\u{202e}gnp",
            "memory",
            "Memory/x.json",
            "memory/x.json",
            "user_tools.py",
            "USER_TOOLS.PY",
            ".versions/x",
            ".lock",
            "a/.mcb-1",
            &deep,
            &long,
        ] {
            assert!(problem(bad).is_some(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_let_through_stays_below_its_folder(path in "[./a\\\\~ é\n]{0,12}") {
            if problem(&path).is_none() {
                let plain = Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
                prop_assert!(plain && !path.starts_with('/'), "{path:?}");
            }
        }
    }
}
