//! Which file a key has: the rule of the predecessor, and a hash where that rule changed the key, so that two keys never
//! share a file.

use sha2::{Digest, Sha256};

use crate::Error;

/// The longest key, in characters.
const LONGEST: usize = 512;
/// The most characters of a file name that come from the key.
const STEM: usize = 100;
/// The length of the hash in hexadecimal digits.
const HASH: usize = 12;

/// A key that can have a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key<'a>(&'a str);

impl<'a> Key<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, Error> {
        let key = text.trim();
        if key.is_empty() {
            return Err(Error::EmptyKey);
        }
        let length = key.chars().count();
        if length > LONGEST {
            return Err(Error::LongKey {
                length,
                limit: LONGEST,
            });
        }
        Ok(Self(key))
    }

    pub(super) fn as_str(&self) -> &'a str {
        self.0
    }

    /// The key as it is shown in messages.
    pub(super) fn shown(&self) -> String {
        self.0.chars().take(100).collect()
    }

    /// Names of the files that may hold this key, the one to be taken first.
    pub(super) fn files(&self) -> [String; 2] {
        let (plain, hashed) = (format!("{}.json", self.stem()), self.hashed());
        if self.is_plain() {
            [plain, hashed]
        } else {
            [hashed, plain]
        }
    }

    /// Whether a new memory may get this file. The plain name is for keys that equal it.
    pub(super) fn may_take(&self, file: &str) -> bool {
        self.is_plain() || file == self.hashed()
    }

    /// Whether the rule left the key unchanged.
    fn is_plain(&self) -> bool {
        self.stem() == self.0
    }

    fn stem(&self) -> String {
        let kept = |character: char| {
            if character.is_ascii_alphanumeric() || matches!(character, '_' | '-') {
                character
            } else {
                '_'
            }
        };
        self.0.chars().map(kept).take(STEM).collect()
    }

    /// The dot cannot come from a key, so a plain name never equals a hashed one.
    fn hashed(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        let hash = hex::encode(&digest[..HASH / 2]);
        format!("{}.{hash}.json", self.stem())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn first(key: &str) -> String {
        let [first, _] = Key::parse(key).unwrap().files();
        first
    }

    #[test]
    fn the_rule_of_the_predecessor_and_a_hash_where_it_changed_the_key() {
        assert_eq!(first("notes_2026-11"), "notes_2026-11.json");
        assert_eq!(first("  notes  "), "notes.json");
        let check = |key: &str, stem: &str| {
            let name = first(key);
            assert!(
                name.starts_with(&format!("{stem}.")) && name.len() == stem.len() + 1 + HASH + 5,
                "{name}"
            );
        };
        check("a b", "a_b");
        check("../../etc/passwd", "______etc_passwd");
        check("ключ", "____");
        check(&"x".repeat(101), &"x".repeat(100));
        assert_eq!(first(&"x".repeat(100)), format!("{}.json", "x".repeat(100)));
        assert!(matches!(Key::parse(" \u{a0}\n"), Err(Error::EmptyKey)));
        assert!(matches!(
            Key::parse(&"é".repeat(513)),
            Err(Error::LongKey { length: 513, .. })
        ));
    }

    proptest! {
        #[test]
        fn names_are_plain_and_two_keys_never_share_one(keys in proptest::collection::btree_set("[ -~é\n]{1,20}", 2..40)) {
            let mut taken: BTreeMap<String, String> = BTreeMap::new();
            for key in keys.iter().filter_map(|key| Key::parse(key).ok()) {
                let name = first(key.as_str());
                prop_assert!(name.len() <= 255 && !name.starts_with('.') && !name.contains(['/', '\\', '\0']), "{name}");
                if let Some(other) = taken.insert(name, key.as_str().to_owned()) {
                    prop_assert_eq!(other, key.as_str());
                }
            }
        }
    }
}
