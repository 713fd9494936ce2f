//! Why a verified guest image is missing, for the person who can change that.

use std::path::PathBuf;

use bridge_engine as engine;

/// Why a verified guest image is missing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error(
        "no guest image for {architecture}, which the engine runs on: use an engine on amd64 or \
        arm64"
    )]
    Architecture { architecture: String },
    #[error(
        "the lock that MCP_BRIDGE_IMAGE_LOCK names is for {locked}, but the engine runs on \
        {engine}: name a lock for {engine}"
    )]
    OtherArchitecture { locked: String, engine: String },
    #[error("cannot use the lock that MCP_BRIDGE_IMAGE_LOCK names: {problem}")]
    Lock { problem: String },
    #[error(
        "MCP_BRIDGE_IMAGE is {reference:?}, whose content can change: name the image by digest \
        (name@sha256:...), or name its lock with MCP_BRIDGE_IMAGE_LOCK"
    )]
    NotPinned { reference: String },
    #[error(
        "the guest image does not match its lock: expected {what} {expected}, engine has \
        {found}{perhaps}; nothing was run; load the right one: mcp-code-bridge image load"
    )]
    Mismatch {
        /// What differs: `config`, `layers` ...
        what: &'static str,
        expected: String,
        found: String,
        /// A guess at the cause, or nothing.
        perhaps: &'static str,
    },
    #[error(
        "the engine does not have the guest image {expected}: it cannot be loaded without an archive; \
        build one: mcp-code-bridge image build (or name one with MCP_BRIDGE_IMAGE_ARCHIVE)"
    )]
    Absent { expected: String },
    #[error(
        "no archive of the guest image {expected}; build one: mcp-code-bridge image build (or name \
        one with MCP_BRIDGE_IMAGE_ARCHIVE)"
    )]
    NoArchive { expected: String },
    #[error(
        "cannot read the guest image's archive: {problem}; build one: mcp-code-bridge image build"
    )]
    UnreadableArchive { problem: String },
    #[error(
        "cannot load the guest image {expected} from {path:?}: {problem}; nothing was run; build a \
        new archive: mcp-code-bridge image build"
    )]
    Archive {
        expected: String,
        path: PathBuf,
        problem: String,
    },
    #[error(
        "the engine's copy of the guest image {image} is damaged: {problem}; remove it and load it \
        again: mcp-code-bridge image load"
    )]
    Damaged { image: String, problem: String },
    #[error(
        "cannot check the engine's copy of the guest image {image}: {problem}; if it is damaged, \
        remove it and load it again: mcp-code-bridge image load"
    )]
    NotExportable { image: String, problem: String },
    #[error(transparent)]
    Engine(#[from] engine::Error),
}
