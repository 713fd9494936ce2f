//! Preflight: each thing that a sandbox needs, checked, with a stable code, what was found, what was expected, and the fix.
//!
//! Looks and asks; starts no container, loads nothing and writes nothing that stays.

mod engine;
mod host;
mod image;
mod runtime;
mod servers;
mod state;

use serde::Serialize;

use bridge_catalog::Catalog;
use bridge_engine::Finder;
use bridge_sandbox::image::Images;
use bridge_settings::{self as settings, Settings};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// Code runs, but a person should know.
    Warn,
    /// Code does not run, or not as it should.
    Fail,
}

impl Outcome {
    /// As shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Stable; documented in docs/src/guide/troubleshooting.md.
    pub code: &'static str,
    /// How it came out.
    pub outcome: Outcome,
    /// What there is.
    pub found: String,
    /// What there should be.
    pub expected: String,
    /// What to do; empty where all is well.
    pub fix: String,
}

impl Check {
    /// A check that came out well.
    pub fn ok(
        name: &'static str,
        code: &'static str,
        found: impl Into<String>,
        expected: &str,
    ) -> Self {
        Self {
            name,
            code,
            outcome: Outcome::Ok,
            found: found.into(),
            expected: expected.to_owned(),
            fix: String::new(),
        }
    }

    fn but(self, outcome: Outcome, fix: impl Into<String>) -> Self {
        Self {
            outcome,
            fix: fix.into(),
            ..self
        }
    }
}

/// Examines everything, in the order in which one thing needs the other. `catalog`: the servers, or why none are known.
pub async fn examine(
    settings: &Settings,
    finder: &Finder,
    images: &Images,
    catalog: Result<&Catalog, &str>,
) -> Vec<Check> {
    let mut checks = vec![of_settings(settings)];
    let host = host::Host::new(settings);
    match finder.engine(&|_| {}).await {
        Ok(engine) => {
            checks.extend(engine::examine(engine.as_ref(), settings).await);
            checks.extend(host.examine(Some(engine.identity())));
            checks.extend(runtime::examine(engine.as_ref(), settings).await);
            checks.push(image::examine(engine.as_ref(), images).await);
        }
        Err(error) => {
            checks.push(engine::missing(&error));
            checks.extend(host.examine(None));
        }
    }
    checks.push(state::examine(settings));
    checks.push(servers::examine(catalog));
    checks
}

fn of_settings(settings: &Settings) -> Check {
    let found = settings.file.as_ref().map_or_else(
        || "defaults and variables, no file".to_owned(),
        |file| file.display().to_string(),
    );
    Check::ok("settings", "C0", found, "settings that can be read")
}

/// The one check that can be made with settings that cannot be read.
pub fn of_settings_error(error: &settings::Error) -> Vec<Check> {
    let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    let check = Check::ok(
        "settings",
        "C0",
        problems.join("\n"),
        "settings that can be read",
    );
    vec![check.but(
        Outcome::Fail,
        "correct what is named; nothing else was checked",
    )]
}
