//! Checks of everything that a sandbox needs. Each has a stable code and says what was found, what
//! was expected, and the fix.
//!
//! Checks only look and ask: they start no container, load nothing, and leave no file behind.

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

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Everything is as it should be.
    Ok,
    /// Code runs, but there is something to know.
    Warn,
    /// Code does not run, or is not isolated as it should be.
    Fail,
}

impl Outcome {
    /// The word for it in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The thing that was checked, in one word.
    pub name: &'static str,
    /// Stable; documented in docs/src/guide/troubleshooting.md.
    pub code: &'static str,
    /// The result.
    pub outcome: Outcome,
    /// What was found.
    pub found: String,
    /// What should have been found.
    pub expected: String,
    /// What to do; empty if nothing is wrong.
    pub fix: String,
}

impl Check {
    /// A check that passed.
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

/// Runs every check, each after those it depends on. `catalog` holds the servers, or why none are
/// known.
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
    Check::ok("settings", "C0", found, "valid settings")
}

/// The only check that is possible when the settings are invalid.
pub fn of_settings_error(error: &settings::Error) -> Vec<Check> {
    let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    let check = Check::ok("settings", "C0", problems.join("\n"), "valid settings");
    vec![check.but(
        Outcome::Fail,
        "correct these settings; nothing else was checked",
    )]
}
