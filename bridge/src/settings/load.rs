//! Where settings come from and how they become one [`Settings`]: every value is looked up in the order of precedence,
//! parsed, checked against the others, and every problem is kept for one error.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::File;
use super::keys::{self, CONFIG_VARIABLE, KEYS, Key};
use super::parse;
use super::problem::{Error, Origin, Problem};
use super::{
    EngineSettings, ImageSettings, Limits, MAX_OUTPUT_TOKENS, OutputMode, Project, SessionSettings,
    Settings, StoreLimits, Surroundings,
};

/// The environment, taken once.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    values: BTreeMap<OsString, OsString>,
    user_home: Option<PathBuf>,
}

/// What the command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// Flag as written (for messages), key, value.
    pub values: Vec<(String, String, OsString)>,
}

impl Variables {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self {
            values: std::env::vars_os().collect(),
            user_home: std::env::home_dir(),
        }
    }

    /// Given ones, with no other home.
    pub fn given<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let values = values
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self {
            values,
            user_home: None,
        }
    }

    /// The value of `name`; empty counts as unset, as in most tools.
    pub(super) fn raw(&self, name: &str) -> Option<OsString> {
        self.values
            .get(&OsString::from(name))
            .filter(|value| !value.is_empty())
            .cloned()
    }

    pub(super) fn user_home(&self) -> Option<PathBuf> {
        self.user_home.clone().filter(|home| home.is_absolute())
    }
}

impl Settings {
    /// Reads all sources. The error holds every problem.
    pub fn load(overrides: &Overrides, variables: &Variables) -> Result<Self, Error> {
        let surroundings = Surroundings::read(variables);
        let mut problems = Vec::new();
        check_flags(overrides, &mut problems);
        let file = find_file(overrides, variables, &surroundings)
            .map(|path| File::read(&path, &mut problems))
            .unwrap_or_default();
        let mut reader = Reader {
            overrides,
            variables,
            file,
            surroundings,
            problems,
        };
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

fn check_flags(overrides: &Overrides, problems: &mut Vec<Problem>) {
    for (flag, key, _) in &overrides.values {
        if !KEYS.iter().any(|known| known.name == key) {
            let meant = parse::closest(key, KEYS.iter().map(|known| known.name)).map(str::to_owned);
            problems.push(Problem::Unknown {
                origin: Origin::Flag(flag.clone()),
                meant,
            });
        }
    }
}

/// A file that was named must be there; the usual places may be empty.
fn find_file(
    overrides: &Overrides,
    variables: &Variables,
    surroundings: &Surroundings,
) -> Option<PathBuf> {
    let named = overrides
        .config
        .clone()
        .or_else(|| variables.raw(CONFIG_VARIABLE).map(PathBuf::from))
        .map(|path| expand(&path, surroundings));
    let state_flag = overrides
        .values
        .iter()
        .rev()
        .find(|(_, key, _)| key == keys::STATE_DIR.name);
    let state = state_flag
        .map(|(.., value)| value.clone())
        .or_else(|| variables.raw(keys::STATE_DIR.variable))
        .map(|path| expand(Path::new(&path), surroundings))
        .or_else(|| surroundings.home.as_ref().map(|home| home.join("MCPs")));
    let usual = [
        state.map(|state| state.join("bridge.yaml")),
        surroundings
            .config_home
            .as_ref()
            .map(|home| home.join("mcp-code-bridge/bridge.yaml")),
    ];
    named.or_else(|| usual.into_iter().flatten().find(|path| path.exists()))
}

/// `~` at the start is the home directory: no shell expands it in a client's configuration.
fn expand(path: &Path, surroundings: &Surroundings) -> PathBuf {
    match (path.strip_prefix("~"), &surroundings.home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

struct Reader<'a> {
    overrides: &'a Overrides,
    variables: &'a Variables,
    file: File,
    surroundings: Surroundings,
    problems: Vec<Problem>,
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
            surroundings: self.surroundings.clone(),
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
        if let Some(home) = &self.surroundings.home {
            return home.join("MCPs");
        }
        self.problems.push(Problem::Value {
            origin: Origin::Variable(keys::STATE_DIR.variable),
            value: String::new(),
            accepts: "a folder; no home directory is known, so it must be set".to_owned(),
        });
        PathBuf::new()
    }

    fn path(&mut self, key: Key) -> Option<PathBuf> {
        let (value, _) = self.value(key)?;
        Some(expand(Path::new(&value), &self.surroundings))
    }

    /// As [`Self::text`], where `word` says that none is wanted.
    fn unless<T>(
        &mut self,
        word: &str,
        key: Key,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (value, _) = self.value(key)?;
        let none = value
            .to_str()
            .is_some_and(|text| text.trim().eq_ignore_ascii_case(word));
        if none { None } else { self.text(key, parse) }
    }

    /// The value of `key` parsed; a bad one is noted and counts as not given.
    fn text<T>(&mut self, key: Key, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let (value, origin) = self.value(key)?;
        let parsed = value.to_str().and_then(|text| parse(text.trim()));
        if parsed.is_none() {
            let value: String = value.to_string_lossy().chars().take(200).collect();
            self.problems.push(Problem::Value {
                origin,
                value,
                accepts: key.accepts.to_owned(),
            });
        }
        parsed
    }

    /// The value of `key` from the first source that has it.
    fn value(&self, key: Key) -> Option<(OsString, Origin)> {
        let flag = self
            .overrides
            .values
            .iter()
            .rev()
            .find(|(_, name, _)| name == key.name);
        if let Some((flag, _, value)) = flag {
            return Some((value.clone(), Origin::Flag(flag.clone())));
        }
        if let Some(value) = self.variables.raw(key.variable) {
            return Some((value, Origin::Variable(key.variable)));
        }
        let (value, origin) = self.file.value(key.name)?;
        Some((value.into(), origin))
    }
}

fn within<T: PartialOrd + Copy>(value: T, from: T, to: T) -> Option<T> {
    (value >= from && value <= to).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{EngineKind, Limit};

    fn load(variables: &[(&str, &str)]) -> Result<Settings, Error> {
        let home = [("HOME", "/nonexistent")];
        let all = home.iter().chain(variables).copied();
        Settings::load(&Overrides::default(), &Variables::given(all))
    }

    fn message(variables: &[(&str, &str)]) -> String {
        load(variables)
            .map(|_| ())
            .map_err(|error| error.to_string())
            .expect_err("accepted")
    }

    fn flags(values: &[(&str, &str, &str)]) -> Overrides {
        let values = values
            .iter()
            .map(|(flag, key, value)| ((*flag).to_owned(), (*key).to_owned(), (*value).into()))
            .collect();
        Overrides {
            config: None,
            values,
        }
    }

    fn yaml(text: &str) -> (tempfile::TempDir, Result<Settings, Error>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("bridge.yaml"), text).expect("written");
        let state = folder.path().to_str().expect("UTF-8").to_owned();
        let result = load(&[("MCP_BRIDGE_STATE_DIR", &state)]);
        (folder, result)
    }

    #[test]
    fn the_defaults_are_those_documented() {
        let settings = load(&[]).expect("defaults");
        assert_eq!(settings.session.timeout, Duration::from_secs(30));
        assert_eq!(settings.session.max_timeout, Duration::from_secs(120));
        assert_eq!(settings.session.max_run, Duration::from_secs(3600));
        assert_eq!(settings.limits.memory_bytes, 512 << 20);
        assert_eq!((settings.limits.pids, settings.limits.cpus), (128, None));
        assert_eq!(settings.limits.user, (65534, 65534));
        assert_eq!(settings.engine.machine_idle, Duration::from_secs(300));
        assert_eq!(settings.state_dir, Path::new("/nonexistent/MCPs"));
        assert_eq!(settings.output_mode, OutputMode::Compact);
        assert_eq!(settings.output_tokens, 8000);
        assert_eq!(
            settings.log_level,
            tracing::level_filters::LevelFilter::INFO
        );
        assert_eq!(
            settings.surroundings.config_home.as_deref(),
            Some(Path::new("/nonexistent/.config"))
        );
    }

    #[test]
    fn every_variable_is_read() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let settings = load(&[
            ("MCP_BRIDGE_RUNTIME", "Docker"),
            ("MCP_BRIDGE_ENGINE_HOST", "unix:///run/x.sock"),
            ("MCP_BRIDGE_OCI_RUNTIME", "crun"),
            ("MCP_BRIDGE_ALLOW_UNENFORCED", "memory,pids"),
            ("MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT", "0"),
            ("MCP_BRIDGE_IMAGE", &digest),
            ("MCP_BRIDGE_IMAGE_ARCHIVE", "~/a.tar"),
            ("MCP_BRIDGE_IMAGE_LOCK", "/l.json"),
            ("GUEST_IMAGE_INPUTS", "/in"),
            ("MCP_BRIDGE_MEMORY", "1g"),
            ("MCP_BRIDGE_PIDS", "64"),
            ("MCP_BRIDGE_CPUS", "1.5"),
            ("MCP_BRIDGE_OPEN_FILES", "256"),
            ("MCP_BRIDGE_CONTAINER_USER", "1000:100"),
            ("MCP_BRIDGE_OUTPUT_LIMIT", "1m"),
            ("MCP_BRIDGE_OUTPUT_TOKENS", "500"),
            ("MCP_BRIDGE_TIMEOUT", "10s"),
            ("MCP_BRIDGE_MAX_TIMEOUT", "2m"),
            ("MCP_BRIDGE_MAX_RUN", "30m"),
            ("MCP_BRIDGE_GRACE", "500ms"),
            ("MCP_BRIDGE_SESSION_IDLE", "1h"),
            ("MCP_BRIDGE_MAX_SESSIONS", "2"),
            ("MCP_BRIDGE_SPARE", "off"),
            ("MCP_BRIDGE_STATE_DIR", "~/state"),
            ("MCP_BRIDGE_PROJECT", "on"),
            ("MCP_BRIDGE_STORE_VALUE", "1m"),
            ("MCP_BRIDGE_STORE_MEMORY", "8m"),
            ("MCP_BRIDGE_STORE_MEMORY_COUNT", "100"),
            ("MCP_BRIDGE_STORE_TOOLS", "10"),
            ("MCP_BRIDGE_STORE_FILES", "2m"),
            ("MCP_BRIDGE_STORE_FILE_COUNT", "50"),
            ("MCP_BRIDGE_OUTPUT_MODE", "TOON"),
            ("MCP_BRIDGE_LOG_LEVEL", "Warning"),
            ("MCP_BRIDGE_ALLOW_SELF_SERVER", "1"),
            ("MCP_SERVERS_CONFIG", "/s.json"),
            ("MCP_BRIDGE_HTTP", "[::1]:8722"),
            ("MCP_BRIDGE_HTTP_TOKEN_FILE", "~/token"),
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ])
        .expect("accepted");
        let expected = Settings {
            engine: EngineSettings {
                kind: Some(EngineKind::Docker),
                host: Some("unix:///run/x.sock".to_owned()),
                runtime: Some("crun".to_owned()),
                allow_unenforced: [Limit::Memory, Limit::Pids].into(),
                machine_idle: Duration::ZERO,
            },
            image: ImageSettings {
                reference: Some(digest),
                archive: Some("/nonexistent/a.tar".into()),
                lock: Some("/l.json".into()),
                inputs: Some("/in".into()),
            },
            limits: Limits {
                memory_bytes: 1 << 30,
                pids: 64,
                cpus: Some(1.5),
                open_files: 256,
                user: (1000, 100),
                output_bytes: 1 << 20,
            },
            session: SessionSettings {
                timeout: Duration::from_secs(10),
                max_timeout: Duration::from_secs(120),
                max_run: Duration::from_secs(1800),
                grace: Duration::from_millis(500),
                idle: Duration::from_secs(3600),
                max_sessions: 2,
                spare: false,
            },
            state_dir: "/nonexistent/state".into(),
            project: Project::Here,
            store: StoreLimits {
                value_bytes: 1 << 20,
                memory_bytes: 8 << 20,
                memories: 100,
                tools: 10,
                file_bytes: 2 << 20,
                files: 50,
            },
            output_mode: OutputMode::Toon,
            output_tokens: 500,
            log_level: tracing::level_filters::LevelFilter::WARN,
            allow_self_server: true,
            servers_config: Some("/s.json".into()),
            http: Some("[::1]:8722".parse().expect("an address")),
            http_token_file: Some("/nonexistent/token".into()),
            file: None,
            surroundings: settings.surroundings.clone(),
        };
        assert_eq!(settings, expected);
        assert_eq!(
            settings.surroundings.runtime_dir.as_deref(),
            Some(Path::new("/run/user/1000"))
        );
    }

    #[test]
    fn all_bad_values_are_named_at_once() {
        insta::assert_snapshot!(message(&[
            ("MCP_BRIDGE_MEMORY", "12q"),
            ("MCP_BRIDGE_TIMEOUT", "-1"),
            ("MCP_BRIDGE_RUNTIME", "containerd"),
            ("MCP_BRIDGE_IMAGE", "python:3.14-slim"),
        ]), @r#"
        4 bad settings:
          MCP_BRIDGE_RUNTIME is "containerd"; accepted: podman, docker or auto
          MCP_BRIDGE_IMAGE is "python:3.14-slim"; accepted: sha256:<64 hex digits> or name@sha256:<64 hex digits>; any name with a lock
          MCP_BRIDGE_MEMORY is "12q"; accepted: a size of at least 32m, such as 512m, 1g or 512MiB
          MCP_BRIDGE_TIMEOUT is "-1"; accepted: whole seconds from 1 up to the largest timeout, such as 30, 30s or 2m
        "#);
    }

    #[test]
    fn nonsense_is_refused_for_every_setting_that_is_no_path() {
        let paths = [
            "image_archive",
            "image_lock",
            "guest_image_inputs",
            "state_dir",
            "project",
            "servers_config",
            "http_token_file",
        ];
        for key in KEYS.iter().filter(|key| !paths.contains(&key.name)) {
            let text = message(&[(key.variable, "\u{7f}?")]);
            assert!(
                text.contains(key.variable) && text.contains(key.accepts),
                "{text}"
            );
        }
    }

    #[test]
    fn timeouts_agree_with_each_other() {
        let both = |timeout, max| {
            load(&[
                ("MCP_BRIDGE_TIMEOUT", timeout),
                ("MCP_BRIDGE_MAX_TIMEOUT", max),
            ])
        };
        assert!(both("60", "30").is_err());
        let raised = load(&[("MCP_BRIDGE_TIMEOUT", "300")])
            .expect("accepted")
            .session;
        assert_eq!(
            (raised.timeout.as_secs(), raised.max_timeout.as_secs()),
            (300, 300)
        );
        let lowered = load(&[("MCP_BRIDGE_MAX_TIMEOUT", "10")])
            .expect("accepted")
            .session;
        assert_eq!(
            (lowered.timeout.as_secs(), lowered.max_timeout.as_secs()),
            (10, 10)
        );
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        assert!(load(&[("MCP_BRIDGE_MEMORY", ""), ("MCP_BRIDGE_RUNTIME", "")]).is_ok());
    }

    #[test]
    fn a_flag_wins_over_a_variable_and_that_over_the_file() {
        let (folder, _) = yaml("memory: 64m\npids: 10\ntimeout: 5\n");
        let state = folder.path().to_str().expect("UTF-8");
        let variables = Variables::given([
            ("MCP_BRIDGE_STATE_DIR", state),
            ("MCP_BRIDGE_PIDS", "20"),
            ("MCP_BRIDGE_TIMEOUT", "6"),
        ]);
        let overrides = flags(&[
            ("--set timeout=7", "timeout", "7"),
            ("--set timeout=8", "timeout", "8"),
        ]);
        let settings = Settings::load(&overrides, &variables).expect("accepted");
        assert_eq!(settings.limits.memory_bytes, 64 << 20);
        assert_eq!(settings.limits.pids, 20);
        assert_eq!(settings.session.timeout.as_secs(), 8);
        assert_eq!(settings.file, Some(folder.path().join("bridge.yaml")));
    }

    #[test]
    fn the_file_reads_lists_numbers_and_nulls() {
        let (_folder, result) =
            yaml("allow_unenforced: [memory, pids]\ncpus: 0.5\nspare: false\nimage:\n");
        let settings = result.expect("accepted");
        assert_eq!(
            settings.engine.allow_unenforced,
            [Limit::Memory, Limit::Pids].into()
        );
        assert_eq!(settings.limits.cpus, Some(0.5));
        assert!(!settings.session.spare);
        assert_eq!(settings.image.reference, None);
    }

    #[test]
    fn problems_in_the_file_name_their_line() {
        let (folder, result) =
            yaml("# ours\nmemory: 12q\n\n\"timout\": 3\nlimits: {memory: 1g}\npids: {a: 1}\n");
        let text = result.map(|_| ()).expect_err("accepted").to_string();
        let text = text.replace(folder.path().to_str().expect("UTF-8"), "STATE");
        insta::assert_snapshot!(text, @r#"
        4 bad settings:
          STATE/bridge.yaml:4: no such setting: "timout" (did you mean timeout?)
          STATE/bridge.yaml:5: no such setting: "limits"
          STATE/bridge.yaml:6: pids is "a mapping"; accepted: a whole number from 8 to 4194304
          STATE/bridge.yaml:2: memory is "12q"; accepted: a size of at least 32m, such as 512m, 1g or 512MiB
        "#);
    }

    #[test]
    fn a_broken_file_is_an_error_with_its_line_and_never_a_crash() {
        let aliases = format!(
            "a: &a [x,x,x,x,x,x,x,x]\n{}",
            (0..20).fold(String::new(), |text, i| {
                format!("{text}b{i}: [*a,*a,*a,*a,*a,*a,*a,*a]\n")
            })
        );
        for text in [
            "a: [",
            "- a\n- b\n",
            "just text",
            "a: 1\na: 2\n",
            "\u{0}",
            &aliases,
            &"[".repeat(20_000),
        ] {
            let (_folder, result) = yaml(text);
            assert!(result.is_err(), "{}", &text[..text.len().min(40)]);
        }
        let (_folder, empty) = yaml("# nothing\n");
        assert!(empty.is_ok());
        let (_folder, large) = yaml(&format!("# {}\n", "x".repeat(300 << 10)));
        assert!(
            large
                .expect_err("accepted")
                .to_string()
                .contains("larger than 256 KiB")
        );
    }

    #[test]
    fn a_named_file_must_be_there_and_be_a_file() {
        assert!(
            message(&[("MCP_BRIDGE_CONFIG", "/nonexistent/b.yaml")]).contains("cannot be read")
        );
        assert!(message(&[("MCP_BRIDGE_CONFIG", "/dev/zero")]).contains("not a file"));
    }

    #[test]
    fn a_project_is_a_switch_or_a_folder() {
        let project = |value: &str| {
            load(&[("MCP_BRIDGE_PROJECT", value)])
                .expect("taken")
                .project
        };
        assert_eq!(load(&[]).expect("defaults").project, Project::Shared);
        assert_eq!(project("off"), Project::Shared);
        assert_eq!(project("On"), Project::Here);
        assert_eq!(
            project("~/work"),
            Project::Folder("/nonexistent/work".into())
        );
        assert_eq!(
            yaml("project: true").1.expect("taken").project,
            Project::Here
        );
    }

    #[test]
    fn an_unknown_flag_key_is_named() {
        let overrides = flags(&[("--set memry=1g", "memry", "1g")]);
        let error =
            Settings::load(&overrides, &Variables::given([("HOME", "/h")])).expect_err("accepted");
        assert_eq!(
            error.to_string(),
            "bad setting: --set memry=1g: no such setting (did you mean memory?)"
        );
    }

    #[test]
    fn without_a_home_the_state_folder_must_be_given() {
        let load = |pairs: &[(&str, &str)]| {
            Settings::load(
                &Overrides::default(),
                &Variables::given(pairs.iter().copied()),
            )
        };
        assert!(
            load(&[])
                .expect_err("accepted")
                .to_string()
                .contains("MCP_BRIDGE_STATE_DIR")
        );
        assert!(load(&[("MCP_BRIDGE_STATE_DIR", "/state")]).is_ok());
    }
}
