//! Owns the guest image: turns a lock into an OCI image, byte for byte the same on every machine.
//!
//! Entry points: [`build`] makes the archive from a [`Lock`], [`Archive::verify`] checks one
//! against its [`Digests`], [`refresh`] and [`pin_wheels`] make new locks, [`sbom`] describes an
//! image,
//! [`committed`] gives the digests that this program was built with.
//!
//! Invariants: the same lock gives the same bytes; no time, path, locale, user or mode of the
//! building machine reaches the image; an input counts only if its size and SHA-256 are the lock's;
//! nothing is unpacked to the host's file system except the interpreter that compiles byte code.
//!
//! It must never know container engines, sessions or the bridge's settings.

#![allow(
    missing_docs,
    reason = "messages and names of error variants say what they mean"
)]

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
pub use verify::{Archive, Error as VerifyError, Verified, exported_layers};
pub use wheels::{Error as WheelsError, pin_wheels};
