//! An archive against its digests: every blob is hashed, every reference followed, the layers looked into.

mod contents;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use contents::{Contents, differs};

use crate::architecture::Architecture;
use crate::digests::Digests;
use crate::layout::blob_path;
use crate::progress::Progress;
use crate::rootfs::PYTHON;
use crate::sha256::Hasher;

/// Entries that an archive of ours has at most.
const MAX_ENTRIES: usize = 64;
/// Size of its JSON files at most.
const MAX_JSON_BYTES: u64 = 1 << 20;

/// What was found to be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Blobs hashed.
    pub blobs: usize,
    /// Bytes hashed.
    pub bytes: u64,
    /// The machine that its Python is for.
    pub architecture: Architecture,
}

/// Why an archive is not the image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The archive.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something that belongs in there is not.
    #[error("the archive has no {0}")]
    Missing(String),
    /// Something is in there that does not belong.
    #[error("the archive is not one of ours: {0}")]
    Foreign(String),
    /// A JSON file is broken.
    #[error("{name} in the archive is not valid")]
    Json {
        /// Its path.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// Content that its name does not fit.
    #[error("{name} is damaged or tampered with: its content is {found}")]
    Blob {
        /// Its path.
        name: String,
        /// The sum of what is there.
        found: String,
    },
    /// A whole archive, but of another image.
    #[error("{what}: expected {expected}, found {found}")]
    Differs {
        /// Which part.
        what: &'static str,
        /// By the digests.
        expected: String,
        /// In the archive.
        found: String,
    },
}

impl Error {
    /// Whether the content is wrong, rather than the reading of it.
    pub fn is_mismatch(&self) -> bool {
        !matches!(self, Self::Read { .. })
    }
}

/// Checks that `archive` holds the image that `expected` names, whole and unchanged.
pub fn verify(
    archive: &Path,
    expected: &Digests,
    progress: &dyn Progress,
) -> Result<Verified, Error> {
    let read_error = |source| Error::Read {
        path: archive.to_owned(),
        source,
    };
    let file = File::open(archive).map_err(read_error)?;
    let total = file.metadata().map_err(read_error)?.len();
    let layers: BTreeSet<_> = expected
        .diff_ids
        .iter()
        .map(|digest| blob_path(digest))
        .collect();
    let mut contents = Contents::default();
    let mut tar = tar::Archive::new(BufReader::with_capacity(1 << 20, file));
    for entry in tar.entries().map_err(read_error)? {
        let mut entry = entry.map_err(read_error)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type().is_dir() {
            continue;
        }
        let known = contents.sums.contains_key(&name);
        if !entry.header().entry_type().is_file() || known || contents.sums.len() == MAX_ENTRIES {
            return Err(Error::Foreign(format!("{name:?} does not belong in it")));
        }
        let size = entry.size();
        let mut reader = Summed::new(&mut entry);
        if layers.contains(&name) {
            contents
                .look_into_layer(&mut reader)
                .map_err(read_error)??;
        } else if size <= MAX_JSON_BYTES {
            let mut data = Vec::new();
            reader.read_to_end(&mut data).map_err(read_error)?;
            contents.json.insert(name.clone(), data);
        }
        let sum = reader.finish().map_err(read_error)?;
        if let Some(hex) = name.strip_prefix("blobs/sha256/")
            && hex != sum
        {
            return Err(Error::Blob {
                name,
                found: format!("sha256:{sum}"),
            });
        }
        contents.sums.insert(name, sum);
        contents.bytes += size;
        progress.report(
            "verifying the archive",
            contents.bytes.min(total),
            Some(total),
        );
    }
    contents.follow(expected)?;
    let machine = contents
        .machine
        .ok_or_else(|| Error::Missing(PYTHON.to_owned()))?;
    differs(
        "the machine that Python is for",
        &expected.architecture,
        machine.name(),
    )?;
    let blobs = contents
        .sums
        .keys()
        .filter(|name| name.starts_with("blobs/"))
        .count();
    Ok(Verified {
        blobs,
        bytes: contents.bytes,
        architecture: machine,
    })
}

/// A reader that sums what passes.
struct Summed<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Summed<R> {
    fn new(inner: R) -> Self {
        Self {
            inner,
            hasher: Hasher::default(),
        }
    }

    /// Reads to the end; the sum of everything.
    fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self.inner, &mut self.hasher)?;
        Ok(self.hasher.hex())
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer;
    use crate::layout::Image;
    use crate::progress::Silent;
    use crate::tree::{Node, Tree};

    fn image(machine: u8) -> Image {
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
        elf.extend_from_slice(&[machine, 0]);
        let mut tree = Tree::default();
        tree.put(PYTHON, Node::file(elf)).unwrap();
        let runtime = layer::write(&Tree::default()).unwrap();
        Image::new(
            "base",
            Architecture::Amd64,
            vec![(layer::write(&tree).unwrap(), "a"), (runtime, "b")],
        )
        .unwrap()
    }

    fn check(bytes: &[u8], expected: &Digests) -> Result<Verified, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        verify(file.path(), expected, &Silent)
    }

    fn bytes(image: &Image) -> Vec<u8> {
        let mut bytes = Vec::new();
        image.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn takes_the_image_itself() {
        let image = image(62);
        let verified = check(&bytes(&image), image.digests()).unwrap();
        assert_eq!(
            (verified.blobs, verified.architecture),
            (4, Architecture::Amd64)
        );
    }

    #[test]
    fn one_changed_bit_anywhere_in_a_file_is_found() {
        let image = image(62);
        let whole = bytes(&image);
        let mut tar = tar::Archive::new(whole.as_slice());
        let files: Vec<_> = tar
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.size() > 0)
            .map(|entry| {
                (
                    entry.raw_file_position(),
                    entry.size(),
                    entry.path_bytes().into_owned(),
                )
            })
            .collect();
        assert_eq!(files.len(), 7);
        for (start, size, name) in files {
            // The text of oci-layout is the one thing that no digest covers.
            if name == b"oci-layout" {
                continue;
            }
            for at in [start, start + size / 2, start + size - 1] {
                let mut changed = whole.clone();
                changed[usize::try_from(at).unwrap()] ^= 1;
                let result = check(&changed, image.digests());
                let name = String::from_utf8_lossy(&name);
                let tag = name == "index.json" || name == "manifest.json";
                assert!(result.is_err() || tag, "{name} changed at {at} of {size}");
            }
        }
    }

    #[test]
    fn other_images_are_refused() {
        let image = image(62);
        let whole = bytes(&image);
        let mut other = image.digests().clone();
        other.config = other.manifest.clone();
        assert!(matches!(
            check(&whole, &other),
            Err(Error::Differs {
                what: "the config",
                ..
            })
        ));
        let mut other = image.digests().clone();
        other.manifest = other.config.clone();
        assert!(matches!(
            check(&whole, &other),
            Err(Error::Differs {
                what: "the manifest",
                ..
            })
        ));
        let mut other = image.digests().clone();
        other.diff_ids.reverse();
        assert!(matches!(
            check(&whole, &other),
            Err(Error::Differs {
                what: "the layers",
                ..
            })
        ));
        let mut other = image.digests().clone();
        other.architecture = "arm64".to_owned();
        assert!(check(&whole, &other).is_err());
    }

    #[test]
    fn python_for_another_machine_is_refused() {
        let image = image(183);
        let result = check(&bytes(&image), image.digests());
        assert!(matches!(
            result,
            Err(Error::Differs {
                what: "the machine that Python is for",
                ..
            })
        ));
    }

    #[test]
    fn cut_off_and_foreign_files_are_refused() {
        let image = image(62);
        let whole = bytes(&image);
        for length in [0, 100, 512, whole.len() / 2, whole.len() - 3000] {
            assert!(
                check(&whole[..length], image.digests()).is_err(),
                "{length}"
            );
        }
        assert!(check(b"PK\x03\x04", image.digests()).is_err());
        assert!(matches!(
            verify(Path::new("/nonexistent"), image.digests(), &Silent),
            Err(Error::Read { .. })
        ));
    }
}
