//! Every setting by name: its variable, what it accepts, its default and what it means. The one table that the parser,
//! the help texts and the error messages share.

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Key {
    /// As in `bridge.yaml` and `--set`.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// What is accepted, in words.
    pub accepts: &'static str,
    /// The default, in words.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
}

macro_rules! keys {
    ($($constant:ident: $name:literal, $variable:literal, $accepts:literal, $default:literal, $about:literal;)*) => {
        $(pub(super) const $constant: Key = Key {
            name: $name,
            variable: $variable,
            accepts: $accepts,
            default: $default,
            about: $about,
        };)*
        /// All settings, in the order of the documentation.
        pub const KEYS: &[Key] = &[$($constant),*];
    };
}

keys! {
    RUNTIME: "runtime", "MCP_BRIDGE_RUNTIME", "podman, docker or auto", "auto",
        "which container engine to use";
    ENGINE_HOST: "engine_host", "MCP_BRIDGE_ENGINE_HOST",
        "an address such as unix:///run/user/1000/podman/podman.sock or tcp://host:2376", "found",
        "where the engine answers; wins over CONTAINER_HOST and DOCKER_HOST";
    OCI_RUNTIME: "oci_runtime", "MCP_BRIDGE_OCI_RUNTIME", "a name such as crun, runc or runsc", "the engine's",
        "the OCI runtime to ask the engine for";
    ALLOW_UNENFORCED: "allow_unenforced", "MCP_BRIDGE_ALLOW_UNENFORCED", "a list of memory, pids and cpus, or none",
        "none", "limits that may be missing where the engine cannot enforce them";
    IDLE_TIMEOUT: "runtime_idle_timeout", "MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT",
        "a time such as 300, 300s or 5m; 0 for never", "300",
        "how long a podman machine that the bridge itself started stays up unused";
    IMAGE: "image", "MCP_BRIDGE_IMAGE", "sha256:<64 hex digits> or name@sha256:<64 hex digits>; any name with a lock",
        "the locked guest image", "another guest image";
    IMAGE_ARCHIVE: "image_archive", "MCP_BRIDGE_IMAGE_ARCHIVE", "a file", "the build cache",
        "the archive to load when the engine lacks the image";
    IMAGE_LOCK: "image_lock", "MCP_BRIDGE_IMAGE_LOCK", "a file", "the one built in",
        "a lock, its digests beside it, to use instead of the one built in";
    IMAGE_INPUTS: "guest_image_inputs", "GUEST_IMAGE_INPUTS", "a folder", "none",
        "a folder with the locked inputs of the guest image";
    MEMORY: "memory", "MCP_BRIDGE_MEMORY", "a size of at least 32m, such as 512m, 1g or 512MiB", "512m",
        "memory of one guest, swap included";
    PIDS: "pids", "MCP_BRIDGE_PIDS", "a whole number from 8 to 4194304", "128", "processes and threads of one guest";
    CPUS: "cpus", "MCP_BRIDGE_CPUS", "a number above 0 and at most 1024, such as 1.5, or none", "none",
        "CPUs of one guest";
    OPEN_FILES: "open_files", "MCP_BRIDGE_OPEN_FILES", "a whole number from 64 to 1048576", "1024",
        "open files per process of a guest";
    CONTAINER_USER: "container_user", "MCP_BRIDGE_CONTAINER_USER", "uid or uid:gid, numeric and not 0",
        "65534:65534", "user and group in the container";
    OUTPUT_LIMIT: "output_limit", "MCP_BRIDGE_OUTPUT_LIMIT", "a size from 1k to 64m", "8m",
        "bytes of stdout, and of stderr, that reach the bridge from one run; the sandbox keeps what is over, as far as it can";
    OUTPUT_TOKENS: "output_tokens", "MCP_BRIDGE_OUTPUT_TOKENS", "a whole number from 100 to 20000000", "8000",
        "about how many tokens an answer's text may have; longer output is cut to its head and tail, and stays in the sandbox";
    TIMEOUT: "timeout", "MCP_BRIDGE_TIMEOUT",
        "whole seconds from 1 up to the largest timeout, such as 30, 30s or 2m", "30",
        "time limit of a call that names none";
    MAX_TIMEOUT: "max_timeout", "MCP_BRIDGE_MAX_TIMEOUT", "whole seconds from 1 to 24h, such as 120, 120s or 2m",
        "120", "the longest time limit that a call may ask for";
    MAX_RUN: "max_run", "MCP_BRIDGE_MAX_RUN", "whole seconds from 1 to 24h, such as 3600 or 1h", "1h",
        "the longest a run may take that is left running (yield_after); never less than the largest timeout";
    GRACE: "grace", "MCP_BRIDGE_GRACE", "a time up to 60s, such as 2s or 500ms", "2s",
        "time to react to an interrupt before the guest is killed";
    SESSION_IDLE: "session_idle", "MCP_BRIDGE_SESSION_IDLE", "a time such as 1800, 30m or 1h; 0 for never", "30m",
        "how long an unused session lives";
    MAX_SESSIONS: "max_sessions", "MCP_BRIDGE_MAX_SESSIONS", "a whole number from 1 to 256", "8", "sessions at once";
    SPARE: "spare", "MCP_BRIDGE_SPARE", "on or off", "on", "keep one started, verified guest waiting";
    STATE_DIR: "state_dir", "MCP_BRIDGE_STATE_DIR", "a folder", "~/MCPs",
        "server definitions, memory, saved tools and bridge.yaml";
    PROJECT: "project", "MCP_BRIDGE_PROJECT", "on, off or a folder", "off",
        "memory, saved tools and project files of its own for each project, which is the nearest folder with .git above the working directory, else that directory itself, or the folder named here";
    STORE_VALUE: "store_value", "MCP_BRIDGE_STORE_VALUE", "a size from 1k to 12m", "4m", "largest value of a memory";
    STORE_MEMORY: "store_memory", "MCP_BRIDGE_STORE_MEMORY", "a size from 64k to 4g", "64m", "all memories together";
    STORE_MEMORY_COUNT: "store_memory_count", "MCP_BRIDGE_STORE_MEMORY_COUNT", "a whole number from 1 to 100000", "10000",
        "memories";
    STORE_TOOLS: "store_tools", "MCP_BRIDGE_STORE_TOOLS", "a whole number from 1 to 10000", "500", "saved tools";
    STORE_FILES: "store_files", "MCP_BRIDGE_STORE_FILES", "a size up to 56m", "32m", "all project files together";
    STORE_FILE_COUNT: "store_file_count", "MCP_BRIDGE_STORE_FILE_COUNT", "a whole number up to 10000", "2000",
        "project files";
    OUTPUT_MODE: "output_mode", "MCP_BRIDGE_OUTPUT_MODE", "compact or toon", "compact", "how answers are written";
    LOG_LEVEL: "log_level", "MCP_BRIDGE_LOG_LEVEL", "error, warn, info, debug, trace or off", "info",
        "least severe level that is logged, to stderr";
    HTTP: "http", "MCP_BRIDGE_HTTP", "a loopback address and a port such as 127.0.0.1:8722, or none", "none",
        "where the command serve speaks MCP over HTTP, instead of on standard input and output";
    HTTP_TOKEN_FILE: "http_token_file", "MCP_BRIDGE_HTTP_TOKEN_FILE", "a file", "one is made and printed",
        "holds the bearer token that clients over HTTP must show";
    ALLOW_SELF_SERVER: "allow_self_server", "MCP_BRIDGE_ALLOW_SELF_SERVER", "on or off", "off",
        "offer a server definition that starts this bridge again";
    SERVERS_CONFIG: "servers_config", "MCP_SERVERS_CONFIG", "a file", "none", "one more file of server definitions";
}

/// Names the settings file itself, so it is no key of it.
pub(super) const CONFIG_VARIABLE: &str = "MCP_BRIDGE_CONFIG";

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as JSON, for the options of the Nix modules. Whoever changes it gets the file written.
    #[test]
    fn the_file_for_nix_says_the_same() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/keys.json");
        let table = serde_json::to_string_pretty(KEYS).expect("plain data") + "\n";
        if std::fs::read_to_string(path).is_ok_and(|found| found == table) {
            return;
        }
        if std::env::var_os("CI").is_none() {
            std::fs::write(path, table).expect("written");
        }
        panic!(
            "{path} was not KEYS as JSON; run this test without CI set to write it, give new keys a type in nix/settings.nix, commit both"
        );
    }
}
