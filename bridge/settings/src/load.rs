//! How the sources become one [`Settings`]: every value is looked up, parsed and checked against
//! the others, and every problem is kept for one error.

use std::path::{Path, PathBuf};

use tracing::level_filters::LevelFilter;

use bridge_common::host::HostEnv;

use super::parse;
use super::problem::{Error, Origin, Problem};
use super::sources::{Overrides, Reader};
use super::table;
use super::{
    EngineSettings, ImageSettings, Limits, Project, SessionSettings, Settings, StoreLimits,
};

impl Settings {
    /// Reads all sources. The error holds every problem.
    pub fn load(overrides: &Overrides, host: &HostEnv) -> Result<Self, Error> {
        let mut reader = Reader::new(overrides, host);
        let settings = reader.settings();
        if reader.problems.is_empty() {
            Ok(settings)
        } else {
            Err(Error {
                problems: reader.problems,
            })
        }
    }
}

/// Checks a settings file by itself, whatever flags and variables say. The error holds every
/// problem.
pub fn check_file(path: &Path) -> Result<(), Error> {
    let overrides = Overrides {
        config: Some(path.to_owned()),
        values: Vec::new(),
    };
    // The default of the state folder needs some home; nothing is looked up there.
    let host = HostEnv::fake([("HOME", "/")]);
    Settings::load(&overrides, &host).map(drop)
}

/// The parts of the settings that have defaults of their own, as they are where no source says
/// anything.
pub(super) fn defaults() -> (Limits, SessionSettings, StoreLimits) {
    let (overrides, host) = (Overrides::default(), HostEnv::fake([]));
    let mut reader = Reader::without_sources(&overrides, &host);
    (reader.limits(), reader.session(), reader.store())
}

impl Reader<'_> {
    fn settings(&mut self) -> Settings {
        let engine = self.engine();
        let image = self.image();
        let limits = self.limits();
        let session = self.session();
        Settings {
            engine,
            image,
            limits,
            session,
            state_dir: self.state_dir(),
            project: self.project(),
            store: self.store(),
            output_mode: self.value(&table::OUTPUT_MODE),
            output_tokens: self.value(&table::OUTPUT_TOKENS),
            log_level: self.value_or(&table::LOG_LEVEL, LevelFilter::INFO),
            allow_self_server: self.value(&table::ALLOW_SELF_SERVER),
            servers_config: self.path(&table::SERVERS_CONFIG),
            http: self.value(&table::HTTP),
            http_token_file: self.path(&table::HTTP_TOKEN_FILE),
            file: self.file.path.clone(),
            host: self.host.clone(),
        }
    }

    fn engine(&mut self) -> EngineSettings {
        EngineSettings {
            kind: self.value(&table::RUNTIME),
            host: self.given(&table::ENGINE_HOST),
            runtime: self.given(&table::OCI_RUNTIME),
            allow_unenforced: self.value(&table::ALLOW_UNENFORCED),
            machine_idle: self.value(&table::RUNTIME_IDLE_TIMEOUT),
        }
    }

    fn image(&mut self) -> ImageSettings {
        let lock = self.path(&table::IMAGE_LOCK);
        let has_lock = lock.is_some();
        ImageSettings {
            reference: self.given_if(&table::IMAGE, |name| has_lock || parse::pinned(name)),
            archive: self.path(&table::IMAGE_ARCHIVE),
            lock,
            inputs: self.path(&table::GUEST_IMAGE_INPUTS),
        }
    }

    fn limits(&mut self) -> Limits {
        Limits {
            memory_bytes: self.value(&table::MEMORY),
            pids: self.value(&table::PIDS),
            cpus: self.value(&table::CPUS),
            open_files: self.value(&table::OPEN_FILES),
            user: self.value(&table::CONTAINER_USER),
            output_bytes: self.value(&table::OUTPUT_LIMIT),
        }
    }

    fn session(&mut self) -> SessionSettings {
        let given_max = self.given(&table::MAX_TIMEOUT);
        // Only two values that were both given can contradict each other.
        let given = self.given_if(&table::TIMEOUT, |time| {
            given_max.is_none_or(|max| *time <= max)
        });
        let usual = table::TIMEOUT.default_value().unwrap_or_default();
        let usual_max = table::MAX_TIMEOUT.default_value().unwrap_or_default();
        let max_timeout = given_max.unwrap_or_else(|| usual_max.max(given.unwrap_or_default()));
        SessionSettings {
            timeout: given.unwrap_or(usual).min(max_timeout),
            max_timeout,
            max_run: self.value(&table::MAX_RUN).max(max_timeout),
            grace: self.value(&table::GRACE),
            idle: self.value(&table::SESSION_IDLE),
            max_sessions: self.value(&table::MAX_SESSIONS),
            spare: self.value(&table::SPARE),
        }
    }

    fn project(&mut self) -> Project {
        match self.given(&table::PROJECT) {
            // The parsed text is not the path: `~` is replaced, and bytes that are not text are
            // kept.
            Some(Project::Folder(_)) | None => self
                .path(&table::PROJECT)
                .map_or(Project::Shared, Project::Folder),
            Some(switch) => switch,
        }
    }

    fn store(&mut self) -> StoreLimits {
        StoreLimits {
            value_bytes: self.value(&table::STORE_VALUE),
            memory_bytes: self.value(&table::STORE_MEMORY),
            memories: self.value(&table::STORE_MEMORY_COUNT),
            tools: self.value(&table::STORE_TOOLS),
            file_bytes: self.value(&table::STORE_FILES),
            files: self.value(&table::STORE_FILE_COUNT),
        }
    }

    fn state_dir(&mut self) -> PathBuf {
        if let Some(given) = self.path(&table::STATE_DIR) {
            return given;
        }
        if let Some(home) = self.host.home() {
            return home.join("MCPs");
        }
        self.problems.push(Problem::Value {
            origin: Origin::Variable(table::STATE_DIR.variable),
            value: String::new(),
            accepts: "a folder, since the default is below HOME, which is not set".to_owned(),
        });
        PathBuf::new()
    }
}

#[cfg(test)]
mod tests;
