//! The command line: results go to stdout, everything else to stderr.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage, 3 digest mismatch, 4 inputs unavailable.

mod build;
mod digest;
mod lock;
mod sbom;
mod terminal;
mod verify;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use bridge_common::error::chain;
use clap::{Args, Parser, Subcommand};
use guest_image::{BuildOptions, Sources};

/// Lock, build, verify and describe the guest image of mcp-code-bridge.
#[derive(Debug, Parser)]
#[command(name = "guest-image", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the image archive from its lock and check it against its digests.
    Build(build::Build),
    /// Print the committed digests, or build the image and write new ones.
    Digest(digest::Digest),
    /// Print the committed lock, or make one with today's packages or with your wheels.
    Lock(lock::LockCommand),
    /// Print the bill of materials of an image (SPDX 2.3 JSON).
    Sbom(sbom::Sbom),
    /// Hash everything in an image archive and compare it with the digests.
    Verify(verify::Verify),
}

/// Which image to build, and where its inputs come from.
#[derive(Debug, Args)]
struct ImageArguments {
    /// Set of packages.
    #[arg(long, default_value = "base")]
    flavour: String,
    /// Architecture of the image [default: that of this machine].
    #[arg(long, value_name = "amd64|arm64", conflicts_with = "lock")]
    arch: Option<String>,
    /// Use this lock instead of a committed one.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArguments,
    /// Use the guest runtime in this folder instead of the built-in one; no digests exist for it.
    #[arg(long, value_name = "DIR")]
    runtime: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SourceArguments {
    /// Folder with the files that the lock names, by name or by SHA-256 [env:
    /// `GUEST_IMAGE_INPUTS`].
    ///
    /// Missing files come from the cache, a Debian mirror or the snapshot archive, in that order.
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,
    /// Debian mirror [env: `GUEST_IMAGE_MIRROR`, default: the one that apt uses].
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// URL of the folder `/archive/debian` of a snapshot archive.
    ///
    /// [env: `GUEST_IMAGE_SNAPSHOT`, default: the one in apt's configuration]
    #[arg(long, value_name = "URL")]
    snapshot: Option<String>,
    /// Do not download anything.
    #[arg(long)]
    offline: bool,
}

impl ImageArguments {
    fn options(self) -> BuildOptions {
        BuildOptions {
            flavour: self.flavour,
            architecture: self.arch,
            lock: self.lock,
            sources: self.sources.sources(),
            out: None,
            runtime: self.runtime,
        }
    }
}

impl SourceArguments {
    /// The sources given as options, else those in the environment.
    fn sources(&self) -> Sources {
        let environment = Sources::from_environment();
        Sources {
            folder: self.inputs.clone().or(environment.folder),
            cache: environment.cache,
            mirror: self.mirror.clone().or(environment.mirror),
            snapshot: self.snapshot.clone().or(environment.snapshot),
            offline: self.offline,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Image(#[from] guest_image::Error),
    #[error(transparent)]
    Lock(#[from] guest_image::LockError),
    #[error(transparent)]
    Digests(#[from] guest_image::DigestsError),
    #[error(transparent)]
    Refresh(#[from] guest_image::RefreshError),
    #[error(transparent)]
    Verify(#[from] guest_image::VerifyError),
    #[error(transparent)]
    Wheels(#[from] guest_image::WheelsError),
    #[error("cannot write {path:?}")]
    Write { path: PathBuf, source: io::Error },
    #[error("no committed digests for {flavour} on {architecture}")]
    NotCommitted {
        flavour: String,
        architecture: String,
    },
    #[error(
        "cannot find the folder guest-image/lock here or above: run this in the source tree, or \
        name the folder with --dir"
    )]
    NoLockFolder,
    #[error("cannot write the result")]
    Output(#[source] io::Error),
    #[error("cannot write the result as JSON")]
    Json(#[from] serde_json::Error),
}

impl Error {
    fn exit_code(&self) -> u8 {
        use guest_image::{Error as Image, InputsError};
        match self {
            Self::Image(Image::Mismatch { .. } | Image::Inputs(InputsError::Mismatch { .. })) => 3,
            Self::Verify(error) if error.is_mismatch() => 3,
            Self::Image(Image::Inputs(InputsError::Unavailable { .. })) => 4,
            _ => 1,
        }
    }
}

/// Runs the command given by the arguments; the exit code says how it ended.
pub(crate) fn run() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Build(build) => build.run(),
        Command::Digest(digest) => digest.run(),
        Command::Lock(lock) => lock.run(),
        Command::Sbom(sbom) => sbom.run(),
        Command::Verify(verify) => verify.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe because it has all that it wants.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // There is nowhere left to report a failure of this write.
            let _ = writeln!(io::stderr(), "error: {}", chain(&error));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Writes a result to stdout.
fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush())
        .map_err(Error::Output)
}
