//! Inputs that are on this machine: in a folder that was given, or in the cache.

use std::fs;
use std::io;
use std::path::Path;

use super::Error;
use crate::cache;
use crate::lock::Input;
use crate::progress::Progress;
use crate::sha256;

/// A file of the folder given, by name or by sum. One with the right name and the wrong content is an error: whoever
/// gave the folder should know.
pub(super) fn from_folder(folder: &Path, input: &Input) -> Result<Option<Vec<u8>>, Error> {
    let sum = input.sha256();
    for path in [
        folder.join(input.file_name()),
        folder.join(sum),
        folder.join("sha256").join(sum),
    ] {
        if let Some(result) = read_checked(&path, input)? {
            return result.map(Some);
        }
    }
    Ok(None)
}

pub(super) fn from_cache(
    cache: &Path,
    input: &Input,
    progress: &dyn Progress,
) -> Result<Option<Vec<u8>>, Error> {
    let path = cache::input_path(cache, input.sha256());
    match read_checked(&path, input)? {
        Some(Err(Error::Wrong { .. })) => {
            progress.warn(&format!(
                "the cached {} is damaged and will be fetched anew",
                input.file_name()
            ));
            fs::remove_file(&path).map_err(|source| Error::Cache { path, source })?;
            Ok(None)
        }
        Some(result) => result.map(Some),
        None => Ok(None),
    }
}

/// `None`: no such file. The inner result says whether it is the right one.
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
    let wrong = |found| Error::Wrong {
        path: path.to_owned(),
        expected: format!("{} bytes, sha256 {}", input.size(), input.sha256()),
        found,
    };
    if length != input.size() {
        return Ok(Some(Err(wrong(format!("{length} bytes")))));
    }
    let data = fs::read(path).map_err(read_error)?;
    let sum = sha256::hex(&data);
    if sum != input.sha256() {
        return Ok(Some(Err(wrong(format!("sha256 {sum}")))));
    }
    Ok(Some(Ok(data)))
}
