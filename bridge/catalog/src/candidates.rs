//! Every file in which some client keeps servers, in the order in which definitions win.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::dialect::{self, Dialect};
use super::document::Syntax;
use super::register::{self, Client, Scope};
use super::search_paths::{Platform, SearchPaths};

/// A file or folder that may hold definitions.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) dialect: &'static Dialect,
    pub(super) path: PathBuf,
    pub(super) syntax: Syntax,
    /// A folder: all `*.json` files in it count.
    pub(super) is_folder: bool,
    /// The largest file that is read, in bytes.
    pub(super) limit: u64,
    /// The user named the file, so its absence is a mistake.
    pub(super) must_exist: bool,
    /// Why the file is not read although people put definitions there.
    pub(super) never: Option<&'static str>,
    /// The client and the scope for which the bridge itself can be entered here.
    pub(super) registers: Option<(&'static Client, Scope)>,
}

impl Candidate {
    fn file(dialect: &'static Dialect, path: PathBuf) -> Self {
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
            registers: None,
        }
    }

    fn registers(self, client: &'static Client, scope: Scope) -> Self {
        Self {
            registers: Some((client, scope)),
            ..self
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

impl SearchPaths {
    /// Every candidate; the first one wins.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let here = |path: &str| self.cwd.join(path);
        let mut list = vec![Candidate::folder(&dialect::GENERIC, self.state_dir.clone())];
        list.extend(
            self.configured("mcp/servers")
                .into_iter()
                .map(|path| Candidate::folder(&dialect::SHARED, path)),
        );
        list.extend([
            Candidate::folder(&dialect::SHARED, here("mcp-servers")),
            Candidate::file(&dialect::CLAUDE_PROJECT, here(".mcp.json"))
                .registers(&register::CLAUDE_CODE, Scope::Project),
            Candidate::file(&dialect::VS_CODE, here(".vscode/mcp.json"))
                .registers(&register::VSCODE, Scope::Project),
        ]);
        self.of_clients(&mut list);
        list.extend(self.extra.iter().map(|path| Candidate {
            must_exist: true,
            ..Candidate::file(&dialect::GENERIC, path.clone())
        }));
        self.never_read(&mut list);
        // In the home folder, the files of the project and of the user are the same.
        let mut seen = BTreeSet::new();
        list.retain(|place| seen.insert(place.path.clone()));
        list
    }

    fn of_clients(&self, list: &mut Vec<Candidate>) {
        let home = |path: &str| self.home.join(path);
        let claude = self.folder("CLAUDE_CONFIG_DIR", self.home.clone());
        list.extend([
            // It holds the history of every project too, so it may be large.
            Candidate {
                limit: 64 << 20,
                ..Candidate::file(&dialect::CLAUDE_CODE, claude.join(".claude.json"))
                    .registers(&register::CLAUDE_CODE, Scope::User)
            },
            Candidate::file(&dialect::CURSOR, home(".cursor/mcp.json"))
                .registers(&register::CURSOR, Scope::User),
            Candidate::file(&dialect::CURSOR, self.cwd.join(".cursor/mcp.json"))
                .registers(&register::CURSOR, Scope::Project),
            Candidate::file(&dialect::OPENCODE, home(".opencode.json")),
        ]);
        for path in ["opencode/opencode.json", "opencode/opencode.jsonc"] {
            list.extend(first_registers(
                self.configured(path),
                &dialect::OPENCODE,
                Some(&register::OPENCODE),
            ));
        }
        list.push(
            Candidate::file(
                &dialect::WINDSURF,
                home(".codeium/windsurf/mcp_config.json"),
            )
            .registers(&register::WINDSURF, Scope::User),
        );
        let application = |path: &str| match self.platform {
            Platform::Linux => self.configured(path),
            Platform::MacOs => vec![home("Library/Application Support").join(path)],
        };
        let application_file = |list: &mut Vec<Candidate>, dialect, path: &str, client| {
            list.extend(first_registers(application(path), dialect, client));
        };
        application_file(
            list,
            &dialect::CLAUDE_DESKTOP,
            "Claude/claude_desktop_config.json",
            Some(&register::CLAUDE_DESKTOP),
        );
        application_file(
            list,
            &dialect::CLAUDE_PROJECT,
            "Claude/claude_code_config.json",
            None,
        );
        application_file(
            list,
            &dialect::CLAUDE_PROJECT,
            "Claude Code/claude_code_config.json",
            None,
        );
        list.extend([
            Candidate::file(&dialect::CLAUDE_CODE, home(".claude/settings.json")),
            Candidate::file(
                &dialect::CLAUDE_CODE,
                home(".claude/claude_code_config.json"),
            ),
            Candidate::file(&dialect::GEMINI, home(".gemini/settings.json"))
                .registers(&register::GEMINI, Scope::User),
            Candidate::file(
                &dialect::CODEX,
                self.folder("CODEX_HOME", home(".codex"))
                    .join("config.toml"),
            )
            .registers(&register::CODEX, Scope::User),
        ]);
        for (editor, client) in [
            ("Code", &register::VSCODE),
            ("Code - Insiders", &register::VSCODE_INSIDERS),
            ("VSCodium", &register::VSCODIUM),
        ] {
            application_file(
                list,
                &dialect::VS_CODE_SETTINGS,
                &format!("{editor}/User/settings.json"),
                None,
            );
            let path = format!("{editor}/User/mcp.json");
            application_file(list, &dialect::VS_CODE, &path, Some(client));
        }
        list.extend(first_registers(
            self.configured("zed/settings.json"),
            &dialect::ZED,
            Some(&register::ZED),
        ));
    }

    /// Files that people put definitions into although no client reads them; reported when they exist.
    fn never_read(&self, list: &mut Vec<Candidate>) {
        let home = |path: &str| self.home.join(path);
        list.push(Candidate::never(
            home(".claude/.mcp.json"),
            "is not read by any client; the user's servers of Claude Code are in ~/.claude.json",
        ));
        if self.cwd != self.home {
            list.push(Candidate::never(
                home(".mcp.json"),
                "is read only when the bridge is started in the home folder",
            ));
        }
        list.push(Candidate::never(
            home(".claude/plugins"),
            "servers of plugins are out of scope; copy a definition to one of the files above",
        ));
    }
}

/// Files at several places, of which the client itself reads the first.
fn first_registers(
    paths: Vec<PathBuf>,
    dialect: &'static Dialect,
    client: Option<&'static Client>,
) -> impl Iterator<Item = Candidate> {
    paths.into_iter().enumerate().map(move |(index, path)| {
        let candidate = Candidate::file(dialect, path);
        match client {
            Some(client) if index == 0 => candidate.registers(client, Scope::User),
            _ => candidate,
        }
    })
}
