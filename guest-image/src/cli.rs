//! The command line: results on stdout, everything else on stderr.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 3 something is not what its digest says, 4 inputs are nowhere to be had.

mod build;
mod digest;
mod lock;
mod sbom;
mod terminal;
mod verify;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

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
    /// Build the image's archive from its lock and check it against its digests.
    Build(build::Build),
    /// Print the committed digests, or build and write them anew.
    Digest(digest::Digest),
    /// Print the committed lock, or make one of today's packages or with wheels in it.
    Lock(lock::LockCommand),
    /// Print the bill of materials (SPDX 2.3 JSON) of an image.
    Sbom(sbom::Sbom),
    /// Hash everything in an archive and compare it with the digests.
    Verify(verify::Verify),
}

/// Which image, and where its inputs come from.
#[derive(Debug, Args)]
struct ImageArguments {
    /// The set of packages.
    #[arg(long, default_value = "base")]
    flavour: String,
    /// The machine it is for [default: this one].
    #[arg(long, value_name = "amd64|arm64", conflicts_with = "lock")]
    arch: Option<String>,
    /// A lock of your own instead of a committed one.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArguments,
    /// Use the runtime in this folder instead of the built-in one; the result matches no digest.
    #[arg(long, value_name = "DIR")]
    runtime: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SourceArguments {
    /// Folder with the lock's files, by name or by sum [env: `GUEST_IMAGE_INPUTS`].
    ///
    /// What it lacks comes from the cache, a mirror of Debian or the snapshot archive, in that order.
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,
    /// A mirror of Debian [env: `GUEST_IMAGE_MIRROR`, default: the one that apt uses].
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// The snapshot archive's folder `/archive/debian` [env: `GUEST_IMAGE_SNAPSHOT`, default: what apt's settings mention].
    #[arg(long, value_name = "URL")]
    snapshot: Option<String>,
    /// Download nothing.
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
    /// What is said here, else in the environment.
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

/// Why a command failed.
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
    #[error("there are no committed digests for {flavour} on {architecture}")]
    NotCommitted {
        flavour: String,
        architecture: String,
    },
    #[error("no folder guest-image/lock is here or above; --dir names it")]
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
            Self::Image(Image::Mismatch { .. } | Image::Inputs(InputsError::Wrong { .. })) => 3,
            Self::Verify(error) if error.is_mismatch() => 3,
            Self::Image(Image::Inputs(InputsError::Gone { .. })) => 4,
            _ => 1,
        }
    }
}

/// Parses, runs, reports.
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
        // Whoever closed our stdout has seen enough.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = format!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                text.extend(["\n  caused by: ", &error.to_string()]);
                cause = error.source();
            }
            // Nobody is left to tell if this fails.
            let _ = writeln!(io::stderr(), "{text}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Prints a result.
fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush())
        .map_err(Error::Output)
}
