//! The guest image: a lock in, the same OCI image out, byte for byte, on any machine.
//!
//! A lock names Debian packages and Python wheels by their sums. They are unpacked in memory, trimmed to Python and its
//! libraries, completed with the guest's own runtime, compiled by the guest's own Python and packed as an archive that
//! every engine loads. Nothing of the machine that builds reaches the image: no time, path, locale, user or mode.

mod architecture;
mod cache;
mod compile;
mod digests;
mod elf;
mod image;
mod inputs;
mod layer;
mod layout;
mod lock;
mod progress;
mod refresh;
mod rootfs;
mod runtime;
mod sbom;
mod sha256;
mod tree;
mod unpack;
mod verify;
mod wheels;

pub use architecture::{Architecture, UnknownArchitecture};
pub use cache::{cache_dir, cached_archive};
pub use digests::{Digests, Error as DigestsError, committed};
pub use image::{BuildOptions, Built, Error, build, digests};
pub use inputs::{Error as InputsError, Sources};
pub use lock::{Error as LockError, Input, Lock};
pub use progress::{Progress, Silent};
pub use refresh::{Error as RefreshError, refresh};
pub use sbom::sbom;
pub use verify::{Error as VerifyError, Verified, verify};
pub use wheels::{Error as WheelsError, pin_wheels};
