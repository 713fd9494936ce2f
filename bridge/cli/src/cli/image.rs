//! `image`: builds, loads and verifies the guest image, and prints its digest.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use guest_image::{Architecture, BuildOptions, Digests, Progress as _};
use serde_json::{Value, json};

use super::bridge::Bridge;
use super::progress::Bars;
use super::{block_on, exit, telemetry, terminal};
use bridge_common::human::size;
use bridge_engine::Engine;
use bridge_sandbox::image::Error;
use bridge_settings::Settings;

/// The flavour of the built-in image.
const FLAVOUR: &str = "base";

/// Builds, loads and verifies the guest image.
///
/// Exit code: 0 done, 1 failed, 2 wrong usage, 3 no container engine answers.
#[derive(Debug, Args)]
pub(super) struct Image {
    #[command(subcommand)]
    act: Act,
    /// Print the result as one line of JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Build the image from its lock and keep its archive in the cache, for the bridge to load when
    /// needed.
    Build {
        /// Folder to write the archive to as well.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Load the archive into the engine, even if the image seems to be there.
    Load,
    /// Check that the engine's image is the locked one.
    Verify {
        /// Export every layer from the engine and hash it.
        #[arg(long)]
        deep: bool,
    },
    /// Print the digest of the image's manifest.
    Digest,
}

impl Image {
    pub(super) fn run(&self, settings: &Settings) -> ExitCode {
        telemetry::start(
            &settings.host,
            settings
                .log_level
                .min(tracing::level_filters::LevelFilter::WARN),
        );
        let result = match &self.act {
            Act::Build { out } => build(settings, out.clone()),
            Act::Digest => digest(settings),
            Act::Load => on_engine(settings, Work::Load),
            Act::Verify { deep: false } => on_engine(settings, Work::Verify),
            Act::Verify { deep: true } => on_engine(settings, Work::VerifyDeep),
        };
        match result {
            Ok(report) => self.print(&report),
            Err(failure) => {
                terminal::say(&failure.message);
                failure.code.into()
            }
        }
    }

    fn print(&self, report: &Report) -> ExitCode {
        let text = if self.json {
            report.value.to_string()
        } else {
            report.text.clone()
        };
        match terminal::out(format!("{text}\n").as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                terminal::say(&format!("cannot write: {error}"));
                exit::FAILED.into()
            }
        }
    }
}

/// The result of a subcommand, for people and for programs.
struct Report {
    text: String,
    value: Value,
}

struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn failed(error: &dyn std::error::Error) -> Self {
        Self {
            code: exit::FAILED,
            message: bridge_common::error::chain(error),
        }
    }

    fn of_image(error: &Error) -> Self {
        let code = if matches!(error, Error::Engine(_)) {
            exit::NO_SANDBOX
        } else {
            exit::FAILED
        };
        Self {
            code,
            ..Self::failed(error)
        }
    }
}

fn build(settings: &Settings, out: Option<PathBuf>) -> Result<Report, Failure> {
    let mut options = BuildOptions::new(FLAVOUR);
    options.lock.clone_from(&settings.image.lock);
    options.sources.folder.clone_from(&settings.image.inputs);
    options.out = out;
    let bars = Bars::or_lines();
    let built = guest_image::build(&options, &bars);
    bars.finish();
    let built = built.map_err(|error| Failure::failed(&error))?;
    if !built.committed {
        bars.warn("this is not the committed image: its digests come from the lock that MCP_BRIDGE_IMAGE_LOCK names");
    }
    let mut value = of_digests(&built.digests);
    value["archive"] = built.archive.display().to_string().into();
    value["committed"] = built.committed.into();
    value["unpackedBytes"] = built.unpacked_bytes.into();
    let text = format!(
        "{}\nmanifest {}\nconfig   {}\n{} unpacked",
        built.archive.display(),
        built.digests.manifest,
        built.digests.config,
        size(built.unpacked_bytes)
    );
    Ok(Report { text, value })
}

fn digest(settings: &Settings) -> Result<Report, Failure> {
    let digests = match &settings.image.lock {
        Some(lock) => Digests::read(lock).map_err(|error| Failure::failed(&error))?,
        None => committed()?,
    };
    Ok(Report {
        value: of_digests(&digests),
        text: digests.manifest,
    })
}

fn committed() -> Result<Digests, Failure> {
    let failure = |message: &str| Failure {
        code: exit::FAILED,
        message: message.to_owned(),
    };
    let architecture = Architecture::host().ok_or_else(|| {
        failure("no guest image for this machine: the architectures are amd64 and arm64")
    })?;
    guest_image::committed(FLAVOUR, architecture.name()).ok_or_else(|| {
        failure("no digests of a guest image for this machine: this bridge was built without them")
    })
}

fn of_digests(digests: &Digests) -> Value {
    json!({
        "architecture": digests.architecture,
        "manifest": digests.manifest,
        "config": digests.config,
        "diffIds": digests.diff_ids,
    })
}

enum Work {
    Load,
    Verify,
    VerifyDeep,
}

fn on_engine(settings: &Settings, work: Work) -> Result<Report, Failure> {
    let bars = Bars::or_lines();
    let done = block_on(async {
        let bridge = Bridge::new(settings);
        let answer = ask_engine(&bridge, work, &bars).await;
        bars.finish();
        bridge.close().await;
        answer
    });
    done.unwrap_or_else(|_| {
        Err(Failure {
            code: exit::FAILED,
            message: "nothing was done: the runtime did not start".to_owned(),
        })
    })
}

async fn ask_engine(bridge: &Bridge, work: Work, bars: &Bars) -> Result<Report, Failure> {
    let report = |message: &str| guest_image::Progress::report(bars, message, 0, None);
    let engine = bridge.launcher.finder().engine(&report).await;
    let engine = engine.map_err(|error| Failure {
        code: exit::NO_SANDBOX,
        message: error.to_string(),
    })?;
    let engine: &dyn Engine = engine.as_ref();
    let report = |message: &str, done: u64, total: Option<u64>| {
        guest_image::Progress::report(bars, message, done, total);
    };
    let images = bridge.launcher.images();
    let (act, facts) = match work {
        Work::Load => ("loaded", images.load(engine, &report).await),
        Work::Verify => ("verified", images.verify(engine).await),
        Work::VerifyDeep => (
            "verified with every layer",
            images.verify_deep(engine, &report).await,
        ),
    };
    let facts = facts.map_err(|error| Failure::of_image(&error))?;
    let identity = engine.identity();
    let text = format!(
        "{} {act} in {} {} ({})",
        facts.id, identity.kind, identity.version, identity.endpoint
    );
    let value = json!({
        "id": facts.id,
        "architecture": facts.architecture,
        "diffIds": facts.diff_ids,
        "engine": identity.kind.name(),
        "version": identity.version,
        "endpoint": identity.endpoint,
    });
    Ok(Report { text, value })
}
