//! Opens the image archive on this machine and verifies it before the engine gets to see it.

use std::path::Path;

use bridge_common::error::chain;
use guest_image::{Archive, Silent, VerifyError};

use super::{Error, Expected, OnProgress};

/// Opens and verifies an archive. What is loaded must be read from the result and not from the
/// path, which may lead to another file by then.
pub(super) async fn open(
    path: &Path,
    expected: &Expected,
    progress: OnProgress<'_>,
) -> Result<Archive, Error> {
    let failed = |error: VerifyError| {
        let problem = chain(&error);
        if error.is_mismatch() {
            Error::Archive {
                expected: expected.id().to_owned(),
                path: path.to_owned(),
                problem,
            }
        } else {
            Error::UnreadableArchive { problem }
        }
    };
    let mut archive = Archive::open(path).map_err(failed)?;
    // Of a pinned image no other digest is known: the engine's image is compared after loading.
    let Some(digests) = expected.digests().cloned() else {
        return Ok(archive);
    };
    let bytes = Some(archive.bytes());
    progress("checking the guest image's archive", 0, bytes);
    let check = tokio::task::spawn_blocking(move || {
        let verified = archive.verify(&digests, &Silent);
        verified.map(|_| archive)
    });
    match check.await {
        Ok(verified) => verified.map_err(failed),
        Err(panic) => Err(Error::UnreadableArchive {
            problem: panic.to_string(),
        }),
    }
}
