//! Why there is no verified guest image, in words for the person who has to mend it.

use std::path::PathBuf;

use bridge_engine as engine;

/// Why there is no verified guest image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bridge was built without an image for the engine's processor.
    #[error(
        "the engine runs on {architecture}, and this bridge knows no guest image for it (amd64 and arm64 only)"
    )]
    Architecture {
        /// The engine's.
        architecture: String,
    },
    /// The user's lock is for another processor than the engine's.
    #[error(
        "the lock that MCP_BRIDGE_IMAGE_LOCK names is for {locked}, and the engine runs on {engine}"
    )]
    OtherArchitecture {
        /// The lock's.
        locked: String,
        /// The engine's.
        engine: String,
    },
    /// The user's lock cannot be used.
    #[error("the lock that MCP_BRIDGE_IMAGE_LOCK names cannot be used: {problem}")]
    Lock {
        /// What is wrong with it.
        problem: String,
    },
    /// The user's image is not pinned.
    #[error(
        "MCP_BRIDGE_IMAGE is {reference:?}, which can change its content: name it by digest (name@sha256:...), or name its lock with MCP_BRIDGE_IMAGE_LOCK"
    )]
    NotPinned {
        /// What was given.
        reference: String,
    },
    /// The engine's image is another.
    #[error(
        "the guest image does not match its lock: expected {what} {expected}, engine has {found}{perhaps}. Nothing was run. Reload it with: mcp-code-bridge image load"
    )]
    Mismatch {
        /// `config`, `layers`, ...
        what: &'static str,
        /// As locked.
        expected: String,
        /// As it is.
        found: String,
        /// What may have happened.
        perhaps: &'static str,
    },
    /// The engine has no such image, and there is nothing to load.
    #[error(
        "the engine does not have the guest image {expected}, and there is no archive of it to load. Make one with: mcp-code-bridge image build (or name one with MCP_BRIDGE_IMAGE_ARCHIVE)"
    )]
    Absent {
        /// Its ID.
        expected: String,
    },
    /// There is nothing to load.
    #[error(
        "there is no archive of the guest image {expected} to load. Make one with: mcp-code-bridge image build (or name one with MCP_BRIDGE_IMAGE_ARCHIVE)"
    )]
    NoArchive {
        /// Its ID.
        expected: String,
    },
    /// The archive is not there, or not for us to read.
    #[error("the archive {} of the guest image cannot be read: {problem}. Make one with: mcp-code-bridge image build", path.display())]
    UnreadableArchive {
        /// Which.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The archive is not one of the image.
    #[error("the archive {} is not the guest image that is locked: {problem}. Nothing was run. Make a new one with: mcp-code-bridge image build", path.display())]
    Archive {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// What the engine gave out as the image is not the image.
    #[error(
        "the engine's copy of the guest image {image} is damaged: {problem}. Remove it and load it again: mcp-code-bridge image load"
    )]
    Damaged {
        /// Its ID.
        image: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
}
