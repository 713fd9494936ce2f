//! Reads inputs from this machine: from the folder that was given, or from the cache.

use std::fs;
use std::io;
use std::path::Path;

use super::Error;
use crate::cache;
use crate::lock::Input;
use crate::progress::Progress;
use crate::sha256;

/// Reads an input from the given folder, by name or by SHA-256. The wrong content under the right
/// name is an error, as the user should know.
pub(super) fn from_folder(folder: &Path, input: &Input) -> Result<Option<Vec<u8>>, Error> {
    let sha256 = input.sha256();
    for path in [
        folder.join(input.file_name()),
        folder.join(sha256),
        folder.join("sha256").join(sha256),
    ] {
        if let Some(result) = read_checked(&path, input)? {
            return result.map(Some);
        }
    }
    Ok(None)
}

/// Reads an input from the cache. A damaged file is removed, with a warning.
pub(super) fn from_cache(
    cache: &Path,
    input: &Input,
    progress: &dyn Progress,
) -> Result<Option<Vec<u8>>, Error> {
    let path = cache::input_path(cache, input.sha256());
    match read_checked(&path, input)? {
        Some(Err(Error::Mismatch { .. })) => {
            progress.warn(&format!(
                "{} is damaged in the cache and will be downloaded again",
                input.file_name()
            ));
            fs::remove_file(&path).map_err(|source| Error::Cache { path, source })?;
            Ok(None)
        }
        Some(result) => result.map(Some),
        None => Ok(None),
    }
}

/// Reads a file if there is one; the inner result is an error if it is not the input.
pub(super) fn read_checked(
    path: &Path,
    input: &Input,
) -> Result<Option<Result<Vec<u8>, Error>>, Error> {
    let read_error = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let length = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(error)),
    };
    let mismatch = |found| Error::Mismatch {
        path: path.to_owned(),
        expected: format!("{} bytes, SHA-256 {}", input.size(), input.sha256()),
        found,
    };
    if length != input.size() {
        return Ok(Some(Err(mismatch(format!("{length} bytes")))));
    }
    let data = fs::read(path).map_err(read_error)?;
    let found = sha256::hex_digest(&data);
    if found != input.sha256() {
        return Ok(Some(Err(mismatch(format!("SHA-256 {found}")))));
    }
    Ok(Some(Ok(data)))
}
