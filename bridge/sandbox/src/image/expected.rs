//! What the guest image must be.

use bridge_common::error::chain;
use guest_image::Digests;

use super::Error;
use bridge_engine::ImageFacts;
use bridge_settings::ImageSettings;

/// The flavour of the built-in image.
const FLAVOUR: &str = "base";

/// What the guest image must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// All digests are known.
    Locked(Digests),
    /// The user's own image, of which one digest is known.
    Pinned {
        /// `name@sha256:...` or `sha256:...`.
        reference: String,
        /// Of the config or of the manifest.
        digest: String,
        /// That of the engine.
        architecture: String,
    },
}

impl Expected {
    /// Takes the user's lock, else a pinned reference, else the built-in digests.
    pub(super) fn read(settings: &ImageSettings, architecture: &str) -> Result<Self, Error> {
        if let Some(lock) = &settings.lock {
            let digests = Digests::read(lock).map_err(|error| Error::Lock {
                problem: chain(&error),
            })?;
            if digests.architecture != architecture {
                return Err(Error::OtherArchitecture {
                    locked: digests.architecture,
                    engine: architecture.to_owned(),
                });
            }
            return Ok(Self::Locked(digests));
        }
        if let Some(reference) = &settings.reference {
            let digest = pinned_digest(reference).ok_or_else(|| Error::NotPinned {
                reference: reference.clone(),
            })?;
            return Ok(Self::Pinned {
                digest: digest.to_owned(),
                reference: reference.clone(),
                architecture: architecture.to_owned(),
            });
        }
        guest_image::committed(FLAVOUR, architecture)
            .map(Self::Locked)
            .ok_or_else(|| Error::Architecture {
                architecture: architecture.to_owned(),
            })
    }

    /// All digests, if they are known.
    pub fn digests(&self) -> Option<&Digests> {
        match self {
            Self::Locked(digests) => Some(digests),
            Self::Pinned { .. } => None,
        }
    }

    /// `amd64` or `arm64`.
    pub fn architecture(&self) -> &str {
        match self {
            Self::Locked(digests) => &digests.architecture,
            Self::Pinned { architecture, .. } => architecture,
        }
    }

    /// The name of the image in messages.
    pub fn id(&self) -> &str {
        match self {
            Self::Locked(digests) => &digests.config,
            Self::Pinned { reference, .. } => reference,
        }
    }

    /// The names that an engine may know the image by, as engines differ in which digest is the ID.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::Locked(digests) => vec![&digests.config, &digests.manifest],
            Self::Pinned { reference, .. } => vec![reference],
        }
    }

    /// Compares what the engine says about the image with what is expected.
    pub(super) fn check(&self, found: &ImageFacts) -> Result<(), Error> {
        match self {
            Self::Locked(digests) => {
                if found.id != digests.config && found.id != digests.manifest {
                    return Err(self.mismatch(found.id.clone(), ""));
                }
                differs(
                    "layers",
                    &digests.diff_ids.join(" "),
                    &found.diff_ids.join(" "),
                )?;
                differs("architecture", &digests.architecture, &found.architecture)?;
            }
            Self::Pinned {
                digest,
                architecture,
                ..
            } => {
                if found.id != *digest && !found.manifests.contains(digest) {
                    return Err(self.mismatch(found.id.clone(), ""));
                }
                differs("architecture", architecture, &found.architecture)?;
            }
        }
        differs("system", "linux", &found.os)
    }

    /// The error for another image than the expected one.
    pub(super) fn mismatch(&self, found: String, perhaps: &'static str) -> Error {
        let (what, expected) = match self {
            Self::Locked(digests) if found.is_empty() => ("manifest", &digests.manifest),
            Self::Locked(digests) => ("config", &digests.config),
            Self::Pinned { digest, .. } => ("digest", digest),
        };
        Error::Mismatch {
            what,
            expected: expected.clone(),
            found,
            perhaps,
        }
    }
}

fn differs(what: &'static str, expected: &str, found: &str) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    let found = if found.is_empty() { "none" } else { found };
    Err(Error::Mismatch {
        what,
        expected: expected.to_owned(),
        found: found.to_owned(),
        perhaps: "",
    })
}

/// The digest in `name@sha256:...` or `sha256:...`.
fn pinned_digest(reference: &str) -> Option<&str> {
    let digest = reference
        .rsplit_once('@')
        .map_or(reference, |(_, digest)| digest);
    let hex = digest.strip_prefix("sha256:")?;
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (hex.len() == 64 && hex.bytes().all(is_hex)).then_some(digest)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn digest(number: u8) -> String {
        format!("sha256:{}", format!("{number:02x}").repeat(32))
    }

    pub(crate) fn locked() -> Digests {
        Digests {
            architecture: "amd64".to_owned(),
            manifest: digest(1),
            config: digest(2),
            diff_ids: vec![digest(3), digest(4)],
            archive_bytes: None,
        }
    }

    fn facts() -> ImageFacts {
        ImageFacts {
            id: digest(2),
            diff_ids: vec![digest(3), digest(4)],
            architecture: "amd64".to_owned(),
            os: "linux".to_owned(),
            ..ImageFacts::default()
        }
    }

    #[test]
    fn either_id_is_accepted_and_all_else_must_be_equal() {
        let check = |change: &dyn Fn(&mut ImageFacts), problem: Option<&str>| {
            let mut found = facts();
            change(&mut found);
            let result = Expected::Locked(locked()).check(&found);
            match problem {
                None => assert!(result.is_ok(), "{result:?}"),
                Some(part) => {
                    let text = result.expect_err(part).to_string();
                    assert!(text.contains(part), "{text}");
                }
            }
        };
        check(&|_| {}, None);
        check(&|it| it.id = digest(1), None);
        check(
            &|it| it.id = digest(9),
            Some(&format!(
                "expected config {}, engine has {}",
                digest(2),
                digest(9)
            )),
        );
        check(&|it| it.diff_ids.reverse(), Some("expected layers"));
        check(&|it| it.diff_ids.clear(), Some("engine has none"));
        check(
            &|it| it.architecture = "arm64".to_owned(),
            Some("expected architecture amd64, engine has arm64"),
        );
        check(
            &|it| it.os = "windows".to_owned(),
            Some("expected system linux"),
        );
    }

    #[test]
    fn users_own_image_must_be_pinned() {
        let read = |reference: &str| {
            let settings = ImageSettings {
                reference: Some(reference.to_owned()),
                ..ImageSettings::default()
            };
            Expected::read(&settings, "amd64")
        };
        for reference in [
            "python:3.14-slim",
            "python",
            "sha256:12",
            "name@sha256:XY",
            &digest(1).to_uppercase(),
        ] {
            let error = read(reference).expect_err(reference);
            assert!(matches!(error, Error::NotPinned { .. }), "{error}");
        }
        let expected = read(&format!("name@{}", digest(7))).expect("pinned");
        let mut found = facts();
        assert!(expected.check(&found).is_err());
        found.manifests = vec![digest(7)];
        assert!(expected.check(&found).is_ok());
    }

    #[test]
    fn lock_for_another_architecture_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = folder.path().join("mine.json");
        let arm = include_str!("../../../../guest-image/lock/base.arm64.digest.json");
        std::fs::write(folder.path().join("mine.digest.json"), arm).expect("written");
        let settings = ImageSettings {
            lock: Some(lock.clone()),
            ..ImageSettings::default()
        };
        let error = Expected::read(&settings, "amd64").expect_err("another's");
        assert!(error.to_string().contains("is for arm64"), "{error}");
        assert!(Expected::read(&settings, "arm64").is_ok());
        std::fs::write(folder.path().join("mine.digest.json"), "{}").expect("written");
        let error = Expected::read(&settings, "arm64").expect_err("broken");
        assert!(error.to_string().contains("mine.digest.json"), "{error}");
    }

    #[test]
    fn unknown_architecture_has_no_image() {
        let error = Expected::read(&ImageSettings::default(), "s390x").expect_err("none");
        assert!(error.to_string().contains("s390x"), "{error}");
    }
}
