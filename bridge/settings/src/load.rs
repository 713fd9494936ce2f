//! How the sources become one [`Settings`]: every value is looked up, parsed and checked against the others, and every
//! problem is kept for one error.

use std::path::PathBuf;
use std::time::Duration;

use bridge_common::host::HostEnv;

use super::keys;
use super::parse;
use super::problem::{Error, Origin, Problem};
use super::sources::{Overrides, Reader};
use super::{
    EngineSettings, ImageSettings, Limits, MAX_OUTPUT_TOKENS, OutputMode, Project, SessionSettings,
    Settings, StoreLimits,
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
            output_mode: self
                .text(keys::OUTPUT_MODE, parse::output_mode)
                .unwrap_or(OutputMode::Compact),
            output_tokens: self
                .text(keys::OUTPUT_TOKENS, |text| {
                    within(text.parse().ok()?, 100, MAX_OUTPUT_TOKENS)
                })
                .unwrap_or(8000),
            log_level: self
                .text(keys::LOG_LEVEL, parse::log_level)
                .unwrap_or(tracing::level_filters::LevelFilter::INFO),
            allow_self_server: self
                .text(keys::ALLOW_SELF_SERVER, parse::switch)
                .unwrap_or(false),
            servers_config: self.path(keys::SERVERS_CONFIG),
            http: self.unless("none", keys::HTTP, parse::loopback),
            http_token_file: self.path(keys::HTTP_TOKEN_FILE),
            file: self.file.path.clone(),
            host: self.host.clone(),
        }
    }

    fn engine(&mut self) -> EngineSettings {
        let address = |text: &str| {
            let (scheme, rest) = text.split_once("://")?;
            let known = matches!(scheme, "unix" | "tcp" | "http" | "https" | "ssh" | "npipe");
            (known && !rest.is_empty()).then(|| text.to_owned())
        };
        let name = |text: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
            (text.len() <= 128 && text.bytes().all(plain)).then(|| text.to_owned())
        };
        EngineSettings {
            kind: self.unless("auto", keys::RUNTIME, parse::engine_kind),
            host: self.text(keys::ENGINE_HOST, address),
            runtime: self.text(keys::OCI_RUNTIME, name),
            allow_unenforced: self
                .text(keys::ALLOW_UNENFORCED, parse::limits)
                .unwrap_or_default(),
            machine_idle: self
                .text(keys::IDLE_TIMEOUT, parse::parse_duration)
                .unwrap_or(Duration::from_secs(300)),
        }
    }

    fn image(&mut self) -> ImageSettings {
        let lock = self.path(keys::IMAGE_LOCK);
        let has_lock = lock.is_some();
        ImageSettings {
            reference: self.text(keys::IMAGE, |text| {
                let plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && text.len() <= 512;
                (plain && (has_lock || parse::pinned(text))).then(|| text.to_owned())
            }),
            archive: self.path(keys::IMAGE_ARCHIVE),
            lock,
            inputs: self.path(keys::IMAGE_INPUTS),
        }
    }

    fn limits(&mut self) -> Limits {
        let usual = Limits::default();
        let size =
            |from: u64, to: u64| move |text: &str| within(parse::parse_size(text)?, from, to);
        let number = |from: u32, to: u32| move |text: &str| within(text.parse().ok()?, from, to);
        Limits {
            memory_bytes: self
                .text(keys::MEMORY, size(32 << 20, 1 << 50))
                .unwrap_or(usual.memory_bytes),
            pids: self
                .text(keys::PIDS, number(8, 4_194_304))
                .unwrap_or(usual.pids),
            cpus: self.unless("none", keys::CPUS, parse::cpus),
            open_files: self
                .text(keys::OPEN_FILES, number(64, 1 << 20))
                .unwrap_or(usual.open_files),
            user: self
                .text(keys::CONTAINER_USER, parse::user)
                .unwrap_or(usual.user),
            output_bytes: self
                .text(keys::OUTPUT_LIMIT, size(1 << 10, 64 << 20))
                .unwrap_or(usual.output_bytes),
        }
    }

    fn session(&mut self) -> SessionSettings {
        let usual = SessionSettings::default();
        let whole = |text: &str| {
            let time = parse::parse_duration(text)?;
            let whole = time.subsec_nanos() == 0;
            whole.then(|| within(time, Duration::from_secs(1), Duration::from_secs(86_400)))?
        };
        let given_max = self.text(keys::MAX_TIMEOUT, whole);
        let given = self.text(keys::TIMEOUT, |text| {
            let time = whole(text)?;
            // Only two values that were both given can contradict each other.
            given_max.is_none_or(|max| time <= max).then_some(time)
        });
        let max_timeout =
            given_max.unwrap_or_else(|| usual.max_timeout.max(given.unwrap_or_default()));
        SessionSettings {
            timeout: given.unwrap_or(usual.timeout).min(max_timeout),
            max_timeout,
            max_run: self
                .text(keys::MAX_RUN, whole)
                .unwrap_or(usual.max_run)
                .max(max_timeout),
            grace: self
                .text(keys::GRACE, |text| {
                    within(
                        parse::parse_duration(text)?,
                        Duration::ZERO,
                        Duration::from_secs(60),
                    )
                })
                .unwrap_or(usual.grace),
            idle: self
                .text(keys::SESSION_IDLE, parse::parse_duration)
                .unwrap_or(usual.idle),
            max_sessions: self
                .text(keys::MAX_SESSIONS, |text| {
                    within(text.parse().ok()?, 1, 256)
                })
                .unwrap_or(usual.max_sessions),
            spare: self.text(keys::SPARE, parse::switch).unwrap_or(usual.spare),
        }
    }

    fn project(&mut self) -> Project {
        let switch = self
            .value(keys::PROJECT)
            .and_then(|(value, _)| parse::switch(value.to_str()?.trim()));
        match switch {
            Some(true) => Project::Here,
            Some(false) => Project::Shared,
            None => self
                .path(keys::PROJECT)
                .map_or(Project::Shared, Project::Folder),
        }
    }

    fn store(&mut self) -> StoreLimits {
        let usual = StoreLimits::default();
        let size =
            |from: u64, to: u64| move |text: &str| within(parse::parse_size(text)?, from, to);
        let number =
            |from: usize, to: usize| move |text: &str| within(text.parse().ok()?, from, to);
        StoreLimits {
            value_bytes: self
                .text(keys::STORE_VALUE, size(1 << 10, 12 << 20))
                .unwrap_or(usual.value_bytes),
            memory_bytes: self
                .text(keys::STORE_MEMORY, size(64 << 10, 4 << 30))
                .unwrap_or(usual.memory_bytes),
            memories: self
                .text(keys::STORE_MEMORY_COUNT, number(1, 100_000))
                .unwrap_or(usual.memories),
            tools: self
                .text(keys::STORE_TOOLS, number(1, 10_000))
                .unwrap_or(usual.tools),
            file_bytes: self
                .text(keys::STORE_FILES, size(0, 56 << 20))
                .unwrap_or(usual.file_bytes),
            files: self
                .text(keys::STORE_FILE_COUNT, number(0, 10_000))
                .unwrap_or(usual.files),
        }
    }

    fn state_dir(&mut self) -> PathBuf {
        if let Some(given) = self.path(keys::STATE_DIR) {
            return given;
        }
        if let Some(home) = self.host.home() {
            return home.join("MCPs");
        }
        self.problems.push(Problem::Value {
            origin: Origin::Variable(keys::STATE_DIR.variable),
            value: String::new(),
            accepts: "a folder; no home directory is known, so it must be set".to_owned(),
        });
        PathBuf::new()
    }
}

fn within<T: PartialOrd + Copy>(value: T, from: T, to: T) -> Option<T> {
    (value >= from && value <= to).then_some(value)
}

#[cfg(test)]
mod tests;
