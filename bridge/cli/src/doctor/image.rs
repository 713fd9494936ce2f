//! The check of the guest image in the engine (I0).

use super::{Check, Outcome};
use bridge_engine::Engine;
use bridge_sandbox::image::{Error, Images};

const LOCKED: &str = "the guest image, as locked";

pub(super) async fn examine(engine: &dyn Engine, images: &Images) -> Check {
    let architecture = &engine.identity().architecture;
    match images.verify(engine).await {
        Ok(facts) => as_locked(
            architecture,
            short(&facts.id),
            images.named_by(architecture),
        ),
        Err(error) => problem(&error, images.has_archive(architecture)),
    }
}

/// An image that the user named instead of the built-in one is fine, but is pointed out.
fn as_locked(architecture: &str, id: &str, named_by: Option<String>) -> Check {
    let check = |found| Check::ok("image", "I0", found, LOCKED);
    match named_by {
        None => check(format!("base {architecture}, {id} as locked")),
        Some(named_by) => check(format!(
            "{architecture}, {id} as {named_by} says; not the image that this bridge was built with"
        ))
        .but(
            Outcome::Warn,
            "none needed if that is intended; otherwise unset MCP_BRIDGE_IMAGE_LOCK and MCP_BRIDGE_IMAGE",
        ),
    }
}

/// An image that is merely absent is loaded when code is run, if there is an archive of it.
fn problem(error: &Error, has_archive: bool) -> Check {
    let (outcome, fix) = match error {
        Error::Absent { .. } if has_archive => (
            Outcome::Warn,
            "none needed, it is loaded when code is run; to load it now: mcp-code-bridge image load",
        ),
        Error::Absent { .. } | Error::NoArchive { .. } => (
            Outcome::Fail,
            "mcp-code-bridge image build\nmcp-code-bridge image load",
        ),
        Error::Mismatch { .. } | Error::Damaged { .. } | Error::NotExportable { .. } => {
            (Outcome::Fail, "mcp-code-bridge image load")
        }
        Error::Archive { .. } | Error::UnreadableArchive { .. } => {
            (Outcome::Fail, "mcp-code-bridge image build")
        }
        Error::Lock { .. } | Error::NotPinned { .. } | Error::OtherArchitecture { .. } => {
            (Outcome::Fail, "correct this setting")
        }
        Error::Architecture { .. } => (Outcome::Fail, "use an engine on amd64 or arm64"),
        Error::Engine(_) => (Outcome::Fail, "fix the engine first"),
    };
    Check::ok("image", "I0", error.to_string(), LOCKED).but(outcome, fix)
}

/// `sha256:` and the first twelve digits.
fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_image_is_a_warning_where_it_can_be_loaded() {
        let absent = Error::Absent {
            expected: "sha256:1a".to_owned(),
        };
        assert_eq!(problem(&absent, true).outcome, Outcome::Warn);
        assert_eq!(problem(&absent, false).outcome, Outcome::Fail);
        let other = Error::Mismatch {
            what: "config",
            expected: "sha256:1a".to_owned(),
            found: "sha256:2b".to_owned(),
            perhaps: "",
        };
        assert_eq!(problem(&other, true).fix, "mcp-code-bridge image load");
    }
}
