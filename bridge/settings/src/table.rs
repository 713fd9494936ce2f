//! The one table of settings. An item says everything about a setting: its name in `bridge.yaml`,
//! its variable, what it accepts, its default and its meaning. The parser, the error messages, the
//! help, the reference page and the options of the Nix modules are made from these items. The file is
//! longer than others on purpose: it is one flat list.

use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::kinds::{
    Choice, Count, Cpus, ENGINES, LimitNames, LoopbackAddress, Path, ProjectChoice, Size, Switch,
    Text, Time, TimeLimit, UserAndGroup,
};
use super::setting::{Default, Described, Setting};
use super::{MAX_OUTPUT_TOKENS, OutputMode, parse};

/// Names the settings file itself, so it cannot be a key of it.
pub(super) const CONFIG_VARIABLE: &str = "MCP_BRIDGE_CONFIG";

/// All settings, in the order of the documentation.
pub(super) static ALL: &[&dyn Described] = &[
    &RUNTIME,
    &ENGINE_HOST,
    &OCI_RUNTIME,
    &ALLOW_UNENFORCED,
    &RUNTIME_IDLE_TIMEOUT,
    &IMAGE,
    &IMAGE_ARCHIVE,
    &IMAGE_LOCK,
    &GUEST_IMAGE_INPUTS,
    &MEMORY,
    &PIDS,
    &CPUS,
    &OPEN_FILES,
    &CONTAINER_USER,
    &OUTPUT_LIMIT,
    &OUTPUT_TOKENS,
    &TIMEOUT,
    &MAX_TIMEOUT,
    &MAX_RUN,
    &GRACE,
    &SESSION_IDLE,
    &MAX_SESSIONS,
    &SPARE,
    &STATE_DIR,
    &PROJECT,
    &STORE_VALUE,
    &STORE_MEMORY,
    &STORE_MEMORY_COUNT,
    &STORE_TOOLS,
    &STORE_FILES,
    &STORE_FILE_COUNT,
    &OUTPUT_MODE,
    &LOG_LEVEL,
    &HTTP,
    &HTTP_TOKEN_FILE,
    &ALLOW_SELF_SERVER,
    &SERVERS_CONFIG,
];

pub(super) static RUNTIME: Setting<Choice<Option<super::EngineKind>>> = Setting {
    name: "runtime",
    variable: "MCP_BRIDGE_RUNTIME",
    about: "which container engine to use",
    accepts: ENGINES,
    default: Default::Value("auto"),
};

pub(super) static ENGINE_HOST: Setting<Text> = Setting {
    name: "engine_host",
    variable: "MCP_BRIDGE_ENGINE_HOST",
    about: "where the engine answers; wins over CONTAINER_HOST and DOCKER_HOST",
    accepts: Text {
        parse: parse::engine_address,
        accepts: "an address such as unix:///run/user/1000/podman/podman.sock or tcp://host:2376",
        pattern: "(unix|tcp|http|https|ssh|npipe)://.+",
    },
    default: Default::Unset("found"),
};

pub(super) static OCI_RUNTIME: Setting<Text> = Setting {
    name: "oci_runtime",
    variable: "MCP_BRIDGE_OCI_RUNTIME",
    about: "the OCI runtime to ask the engine for",
    accepts: Text {
        parse: parse::oci_runtime,
        accepts: "a name such as crun, runc or runsc",
        pattern: "[A-Za-z0-9_./-]{1,128}",
    },
    default: Default::Unset("the engine's"),
};

pub(super) static ALLOW_UNENFORCED: Setting<LimitNames> = Setting {
    name: "allow_unenforced",
    variable: "MCP_BRIDGE_ALLOW_UNENFORCED",
    about: "limits that may be missing where the engine cannot enforce them",
    accepts: LimitNames,
    default: Default::Value("none"),
};

pub(super) static RUNTIME_IDLE_TIMEOUT: Setting<Time> = Setting {
    name: "runtime_idle_timeout",
    variable: "MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT",
    about: "how long a podman machine that the bridge itself started stays up unused",
    accepts: Time {
        to: None,
        such_as: "300, 300s or 5m",
        zero_is_never: true,
    },
    default: Default::Value("300"),
};

pub(super) static IMAGE: Setting<Text> = Setting {
    name: "image",
    variable: "MCP_BRIDGE_IMAGE",
    about: "another guest image",
    accepts: Text {
        parse: parse::image_name,
        accepts: "sha256:<64 hex digits> or name@sha256:<64 hex digits>; any name with a lock",
        // Whether it must be pinned depends on `image_lock`, which options.nix asserts.
        pattern: "[!-~]{1,512}",
    },
    default: Default::Unset("the locked guest image"),
};

pub(super) static IMAGE_ARCHIVE: Setting<Path> = Setting {
    name: "image_archive",
    variable: "MCP_BRIDGE_IMAGE_ARCHIVE",
    about: "the archive to load when the engine lacks the image",
    accepts: Path("a file"),
    default: Default::Unset("the build cache"),
};

pub(super) static IMAGE_LOCK: Setting<Path> = Setting {
    name: "image_lock",
    variable: "MCP_BRIDGE_IMAGE_LOCK",
    about: "a lock, its digests beside it, to use instead of the one built in",
    accepts: Path("a file"),
    default: Default::Unset("the one built in"),
};

pub(super) static GUEST_IMAGE_INPUTS: Setting<Path> = Setting {
    name: "guest_image_inputs",
    variable: "GUEST_IMAGE_INPUTS",
    about: "a folder with the locked inputs of the guest image",
    accepts: Path("a folder"),
    default: Default::Unset("none"),
};

pub(super) static MEMORY: Setting<Size> = Setting {
    name: "memory",
    variable: "MCP_BRIDGE_MEMORY",
    about: "memory of one guest, swap included",
    accepts: Size {
        from: 32 << 20,
        to: Size::ENDLESS,
        such_as: "512m, 1g or 512MiB",
    },
    default: Default::Value("512m"),
};

pub(super) static PIDS: Setting<Count<u32>> = Setting {
    name: "pids",
    variable: "MCP_BRIDGE_PIDS",
    about: "processes and threads of one guest",
    accepts: Count::between(8, 4_194_304),
    default: Default::Value("128"),
};

pub(super) static CPUS: Setting<Cpus> = Setting {
    name: "cpus",
    variable: "MCP_BRIDGE_CPUS",
    about: "CPUs of one guest",
    accepts: Cpus,
    default: Default::Value("none"),
};

pub(super) static OPEN_FILES: Setting<Count<u32>> = Setting {
    name: "open_files",
    variable: "MCP_BRIDGE_OPEN_FILES",
    about: "open files per process of a guest",
    accepts: Count::between(64, 1 << 20),
    default: Default::Value("1024"),
};

pub(super) static CONTAINER_USER: Setting<UserAndGroup> = Setting {
    name: "container_user",
    variable: "MCP_BRIDGE_CONTAINER_USER",
    about: "user and group in the container",
    accepts: UserAndGroup,
    default: Default::Value("65534:65534"),
};

pub(super) static OUTPUT_LIMIT: Setting<Size> = Setting {
    name: "output_limit",
    variable: "MCP_BRIDGE_OUTPUT_LIMIT",
    about: "bytes of stdout, and of stderr, that reach the bridge from one run; the sandbox keeps \
        what is over, as far as it can",
    accepts: Size {
        from: 1 << 10,
        to: 64 << 20,
        such_as: "",
    },
    default: Default::Value("8m"),
};

pub(super) static OUTPUT_TOKENS: Setting<Count<u64>> = Setting {
    name: "output_tokens",
    variable: "MCP_BRIDGE_OUTPUT_TOKENS",
    about: "about how many tokens an answer's text may have; longer output is cut to its head and \
        tail, and stays in the sandbox",
    accepts: Count::between(100, MAX_OUTPUT_TOKENS),
    default: Default::Value("8000"),
};

pub(super) static TIMEOUT: Setting<TimeLimit> = Setting {
    name: "timeout",
    variable: "MCP_BRIDGE_TIMEOUT",
    about: "time limit of a call that names none",
    accepts: TimeLimit {
        up_to: "up to the largest timeout",
        such_as: "30, 30s or 2m",
    },
    default: Default::Value("30"),
};

pub(super) static MAX_TIMEOUT: Setting<TimeLimit> = Setting {
    name: "max_timeout",
    variable: "MCP_BRIDGE_MAX_TIMEOUT",
    about: "the longest time limit that a call may ask for",
    accepts: TimeLimit {
        up_to: "to 24h",
        such_as: "120, 120s or 2m",
    },
    default: Default::Value("120"),
};

pub(super) static MAX_RUN: Setting<TimeLimit> = Setting {
    name: "max_run",
    variable: "MCP_BRIDGE_MAX_RUN",
    about: "time limit of a run that is left running (yield_after); never less than the \
        largest timeout",
    accepts: TimeLimit {
        up_to: "to 24h",
        such_as: "3600 or 1h",
    },
    default: Default::Value("1h"),
};

pub(super) static GRACE: Setting<Time> = Setting {
    name: "grace",
    variable: "MCP_BRIDGE_GRACE",
    about: "time to react to an interrupt before the guest is killed",
    accepts: Time {
        to: Some(Duration::from_secs(60)),
        such_as: "2s or 500ms",
        zero_is_never: false,
    },
    default: Default::Value("2s"),
};

pub(super) static SESSION_IDLE: Setting<Time> = Setting {
    name: "session_idle",
    variable: "MCP_BRIDGE_SESSION_IDLE",
    about: "how long an unused session lives",
    accepts: Time {
        to: None,
        such_as: "1800, 30m or 1h",
        zero_is_never: true,
    },
    default: Default::Value("30m"),
};

pub(super) static MAX_SESSIONS: Setting<Count<usize>> = Setting {
    name: "max_sessions",
    variable: "MCP_BRIDGE_MAX_SESSIONS",
    about: "sessions at once",
    accepts: Count::between(1, 256),
    default: Default::Value("8"),
};

pub(super) static SPARE: Setting<Switch> = Setting {
    name: "spare",
    variable: "MCP_BRIDGE_SPARE",
    about: "keep one started, verified guest waiting",
    accepts: Switch,
    default: Default::Value("on"),
};

pub(super) static STATE_DIR: Setting<Path> = Setting {
    name: "state_dir",
    variable: "MCP_BRIDGE_STATE_DIR",
    about: "server definitions, memory, saved tools and bridge.yaml",
    accepts: Path("a folder"),
    default: Default::Unset("~/MCPs"),
};

pub(super) static PROJECT: Setting<ProjectChoice> = Setting {
    name: "project",
    variable: "MCP_BRIDGE_PROJECT",
    about: "memory, saved tools and project files of its own for each project, which is the nearest \
        folder with .git above the working directory, else that directory itself, or the folder \
        named here",
    accepts: ProjectChoice,
    default: Default::Value("off"),
};

pub(super) static STORE_VALUE: Setting<Size> = Setting {
    name: "store_value",
    variable: "MCP_BRIDGE_STORE_VALUE",
    about: "largest value of a memory",
    accepts: Size {
        from: 1 << 10,
        to: 12 << 20,
        such_as: "",
    },
    default: Default::Value("4m"),
};

pub(super) static STORE_MEMORY: Setting<Size> = Setting {
    name: "store_memory",
    variable: "MCP_BRIDGE_STORE_MEMORY",
    about: "all memories together",
    accepts: Size {
        from: 64 << 10,
        to: 4 << 30,
        such_as: "",
    },
    default: Default::Value("64m"),
};

pub(super) static STORE_MEMORY_COUNT: Setting<Count<usize>> = Setting {
    name: "store_memory_count",
    variable: "MCP_BRIDGE_STORE_MEMORY_COUNT",
    about: "memories",
    accepts: Count::between(1, 100_000),
    default: Default::Value("10000"),
};

pub(super) static STORE_TOOLS: Setting<Count<usize>> = Setting {
    name: "store_tools",
    variable: "MCP_BRIDGE_STORE_TOOLS",
    about: "saved tools",
    accepts: Count::between(1, 10_000),
    default: Default::Value("500"),
};

pub(super) static STORE_FILES: Setting<Size> = Setting {
    name: "store_files",
    variable: "MCP_BRIDGE_STORE_FILES",
    about: "all project files together",
    accepts: Size {
        from: 0,
        to: 56 << 20,
        such_as: "",
    },
    default: Default::Value("32m"),
};

pub(super) static STORE_FILE_COUNT: Setting<Count<usize>> = Setting {
    name: "store_file_count",
    variable: "MCP_BRIDGE_STORE_FILE_COUNT",
    about: "project files",
    accepts: Count::between(0, 10_000),
    default: Default::Value("2000"),
};

pub(super) static OUTPUT_MODE: Setting<Choice<OutputMode>> = Setting {
    name: "output_mode",
    variable: "MCP_BRIDGE_OUTPUT_MODE",
    about: "how answers are written",
    accepts: Choice {
        words: &[("compact", OutputMode::Compact), ("toon", OutputMode::Toon)],
        synonyms: &[],
    },
    default: Default::Value("compact"),
};

pub(super) static LOG_LEVEL: Setting<Choice<LevelFilter>> = Setting {
    name: "log_level",
    variable: "MCP_BRIDGE_LOG_LEVEL",
    about: "least severe level that is logged, to stderr",
    accepts: Choice {
        words: &[
            ("error", LevelFilter::ERROR),
            ("warn", LevelFilter::WARN),
            ("info", LevelFilter::INFO),
            ("debug", LevelFilter::DEBUG),
            ("trace", LevelFilter::TRACE),
            ("off", LevelFilter::OFF),
        ],
        // Python's names: configurations made for the predecessor hold them.
        synonyms: &[
            ("critical", LevelFilter::ERROR),
            ("fatal", LevelFilter::ERROR),
            ("warning", LevelFilter::WARN),
        ],
    },
    default: Default::Value("info"),
};

pub(super) static HTTP: Setting<LoopbackAddress> = Setting {
    name: "http",
    variable: "MCP_BRIDGE_HTTP",
    about: "where the command serve speaks MCP over HTTP, instead of on standard input and output",
    accepts: LoopbackAddress,
    default: Default::Value("none"),
};

pub(super) static HTTP_TOKEN_FILE: Setting<Path> = Setting {
    name: "http_token_file",
    variable: "MCP_BRIDGE_HTTP_TOKEN_FILE",
    about: "holds the bearer token that clients over HTTP must show",
    accepts: Path("a file"),
    default: Default::Unset("one is made and printed"),
};

pub(super) static ALLOW_SELF_SERVER: Setting<Switch> = Setting {
    name: "allow_self_server",
    variable: "MCP_BRIDGE_ALLOW_SELF_SERVER",
    about: "offer a server definition that starts this bridge again",
    accepts: Switch,
    default: Default::Value("off"),
};

pub(super) static SERVERS_CONFIG: Setting<Path> = Setting {
    name: "servers_config",
    variable: "MCP_SERVERS_CONFIG",
    about: "one more file of server definitions",
    accepts: Path("a file"),
    default: Default::Unset("none"),
};
