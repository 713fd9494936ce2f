//! Where definitions may stand, in the order in which they win.
//!
//! Nothing here reads the process's environment: callers, and tests, say what it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::dialect::{self, Dialect};
use super::document::Syntax;

/// Everything that decides which files are considered and how they read.
#[derive(Clone)]
pub struct Places {
    /// The user's home folder.
    pub home: PathBuf,
    /// The folder the bridge was started in.
    pub cwd: PathBuf,
    /// `MCP_BRIDGE_STATE_DIR`.
    pub state_dir: PathBuf,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub config_home: PathBuf,
    /// `MCP_SERVERS_CONFIG`: one more file, the last in order.
    pub extra: Option<PathBuf>,
    /// `MCP_BRIDGE_ALLOW_SELF_SERVER`.
    pub allow_self: bool,
    /// The running program, to recognise definitions that start it again.
    pub executable: Option<PathBuf>,
    /// Whose folders are meant.
    pub platform: Platform,
    /// Variables for expansion and for `PATH`.
    pub environment: BTreeMap<String, String>,
}

impl std::fmt::Debug for Places {
    /// Without the environment, which holds secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Places")
            .field("home", &self.home)
            .field("cwd", &self.cwd)
            .field("state_dir", &self.state_dir)
            .finish_non_exhaustive()
    }
}

/// Where clients keep their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// `~/.config`
    Linux,
    /// `~/Library/Application Support`
    MacOs,
}

impl Places {
    /// The usual places for this environment.
    pub fn new(
        home: PathBuf,
        cwd: PathBuf,
        state_dir: PathBuf,
        environment: BTreeMap<String, String>,
    ) -> Self {
        let variable = |name: &str| {
            environment
                .get(name)
                .map(|value| value.trim())
                .filter(|value| !value.is_empty())
        };
        let config_home = variable("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let extra = variable("MCP_SERVERS_CONFIG").map(|path| match path.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => cwd.join(path),
        });
        let allow_self = variable("MCP_BRIDGE_ALLOW_SELF_SERVER").is_some_and(|value| {
            matches!(
                value.to_ascii_lowercase().as_str(),
                "1" | "true" | "yes" | "on"
            )
        });
        Self {
            config_home: config_home.unwrap_or_else(|| home.join(".config")),
            extra,
            allow_self,
            executable: None,
            platform: if cfg!(target_os = "macos") {
                Platform::MacOs
            } else {
                Platform::Linux
            },
            home,
            cwd,
            state_dir,
            environment,
        }
    }

    /// A path as people write it: `~/.claude.json`, `.mcp.json`.
    pub fn shown(&self, path: &Path) -> String {
        if self.cwd != self.home
            && let Ok(rest) = path.strip_prefix(&self.cwd)
        {
            return format!("./{}", rest.display());
        }
        match path.strip_prefix(&self.home) {
            Ok(rest) => format!("~/{}", rest.display()),
            Err(_) => path.display().to_string(),
        }
    }

    /// A folder named by a variable, or the usual one.
    fn folder(&self, variable: &str, usual: PathBuf) -> PathBuf {
        let named = self
            .environment
            .get(variable)
            .filter(|value| !value.trim().is_empty());
        named.map_or(usual, |value| self.cwd.join(value.trim()))
    }

    /// Every place, the first one winning.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let home = |path: &str| self.home.join(path);
        let here = |path: &str| self.cwd.join(path);
        let mut places = vec![
            Candidate::folder(&dialect::GENERIC, self.state_dir.clone()),
            Candidate::folder(&dialect::SHARED, self.config_home.join("mcp/servers")),
            Candidate::folder(&dialect::SHARED, here("mcp-servers")),
            Candidate::file(&dialect::CLAUDE_PROJECT, here(".mcp.json")),
            Candidate::file(&dialect::VS_CODE, here(".vscode/mcp.json")),
        ];
        let claude = self.folder("CLAUDE_CONFIG_DIR", self.home.clone());
        // Keeps the history of every project too: may be large.
        places.push(Candidate {
            limit: 64 << 20,
            ..Candidate::file(&dialect::CLAUDE_CODE, claude.join(".claude.json"))
        });
        places.extend([
            Candidate::file(&dialect::CURSOR, home(".cursor/mcp.json")),
            Candidate::file(&dialect::CURSOR, here(".cursor/mcp.json")),
            Candidate::file(&dialect::OPENCODE, home(".opencode.json")),
            Candidate::file(
                &dialect::OPENCODE,
                self.config_home.join("opencode/opencode.json"),
            ),
            Candidate::file(
                &dialect::OPENCODE,
                self.config_home.join("opencode/opencode.jsonc"),
            ),
            Candidate::file(
                &dialect::WINDSURF,
                home(".codeium/windsurf/mcp_config.json"),
            ),
        ]);
        let applications = match self.platform {
            Platform::Linux => self.config_home.clone(),
            Platform::MacOs => home("Library/Application Support"),
        };
        places.extend([
            Candidate::file(
                &dialect::CLAUDE_DESKTOP,
                applications.join("Claude/claude_desktop_config.json"),
            ),
            Candidate::file(
                &dialect::CLAUDE_DESKTOP,
                applications.join("Claude/claude_code_config.json"),
            ),
            Candidate::file(
                &dialect::CLAUDE_PROJECT,
                applications.join("Claude Code/claude_code_config.json"),
            ),
            Candidate::file(&dialect::CLAUDE_CODE, home(".claude/settings.json")),
            Candidate::file(
                &dialect::CLAUDE_CODE,
                home(".claude/claude_code_config.json"),
            ),
            Candidate::file(&dialect::GEMINI, home(".gemini/settings.json")),
        ]);
        let codex = self.folder("CODEX_HOME", home(".codex"));
        places.push(Candidate {
            syntax: Syntax::Toml,
            ..Candidate::file(&dialect::CODEX, codex.join("config.toml"))
        });
        for editor in ["Code", "Code - Insiders", "VSCodium"] {
            let user = applications.join(editor).join("User");
            places.push(Candidate::file(
                &dialect::VS_CODE_SETTINGS,
                user.join("settings.json"),
            ));
            places.push(Candidate::file(&dialect::VS_CODE, user.join("mcp.json")));
        }
        places.push(Candidate::file(
            &dialect::ZED,
            self.config_home.join("zed/settings.json"),
        ));
        if self.config_home != home(".config") {
            places.push(Candidate::file(
                &dialect::ZED,
                home(".config/zed/settings.json"),
            ));
        }
        if let Some(extra) = &self.extra {
            places.push(Candidate {
                must_exist: true,
                ..Candidate::file(&dialect::GENERIC, extra.clone())
            });
        }
        places.extend([
            Candidate::never(
                home(".claude/.mcp.json"),
                "no client reads it; Claude Code's user servers stand in ~/.claude.json",
            ),
            Candidate::never(
                home(".mcp.json"),
                "is read only when the bridge is started in the home folder",
            ),
            Candidate::never(
                home(".claude/plugins"),
                "servers of plugins are out of scope; copy their definition to a file above",
            ),
        ]);
        if self.cwd == self.home {
            places.retain(|place| place.never.is_none() || place.path != home(".mcp.json"));
        }
        places
    }

    /// The spellings under which the working directory may be a key.
    pub(super) fn here(&self) -> Vec<String> {
        let mut spellings = vec![self.cwd.to_string_lossy().into_owned()];
        if let Ok(real) = self.cwd.canonicalize() {
            spellings.push(real.to_string_lossy().into_owned());
        }
        spellings.dedup();
        spellings
    }
}

/// A place where definitions may stand.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) dialect: &'static Dialect,
    pub(super) path: PathBuf,
    pub(super) syntax: Syntax,
    /// All `*.json` files in it count.
    pub(super) is_folder: bool,
    /// Most bytes read.
    pub(super) limit: u64,
    /// The user named it, so its absence is a mistake.
    pub(super) must_exist: bool,
    /// Why it is not read although people put definitions there.
    pub(super) never: Option<&'static str>,
}

impl Candidate {
    pub(super) fn file(dialect: &'static Dialect, path: PathBuf) -> Self {
        let toml = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        let syntax = if toml { Syntax::Toml } else { Syntax::Json };
        Self {
            dialect,
            path,
            syntax,
            is_folder: false,
            limit: 4 << 20,
            must_exist: false,
            never: None,
        }
    }

    fn folder(dialect: &'static Dialect, path: PathBuf) -> Self {
        Self {
            is_folder: true,
            ..Self::file(dialect, path)
        }
    }

    fn never(path: PathBuf, why: &'static str) -> Self {
        Self {
            never: Some(why),
            ..Self::file(&dialect::CLAUDE_CODE, path)
        }
    }
}
