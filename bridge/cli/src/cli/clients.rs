//! `clients`: enters this bridge in the MCP clients' own files, and takes it out again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bridge_catalog::SearchPaths;
use bridge_catalog::register::{CLIENTS, ClientFile, Edit, EditError, Entry, Registered, Scope};
use bridge_common::host::HostEnv;
use bridge_common::similar::closest;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::{exit, terminal};

/// How often a file is edited anew that a client has just written.
const TRIES: usize = 3;
const PROGRAM: &str = "mcp-code-bridge";

/// Enters this bridge in the configuration of MCP clients.
#[derive(Debug, Args)]
pub(super) struct Clients {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every client, its file, and whether this bridge is entered there.
    List(List),
    /// Register this bridge as a server in the clients' own files.
    ///
    /// Comments, order and spacing of a file stay, and so do its other servers. An entry of the
    /// bridge that is already there gets the program and keeps everything else. Exit code: 0 all of
    /// them have it, 1 a file was left unchanged, 2 wrong usage.
    Add(Add),
    /// Take this bridge out of the clients' own files.
    ///
    /// Exit code: 0 no client has it any more, 1 a file was left unchanged, 2 wrong usage.
    Remove(Remove),
}

#[derive(Debug, Args)]
struct List {
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Target {
    /// The clients, such as claude-code, cursor or vscode; `clients list` shows all of them.
    #[arg(required = true, value_name = "CLIENT", value_parser = client)]
    clients: Vec<String>,
    /// Which file to edit: the user's own, or that of the project in the working directory.
    #[arg(long, value_enum, default_value = "user")]
    scope: ScopeName,
    /// The name under which the clients know it.
    #[arg(long, default_value = "code", value_parser = server_name)]
    name: String,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    target: Target,
    /// The program that clients start; by default this one.
    #[arg(long, value_name = "PATH")]
    command: Option<String>,
    /// Replace another server that has the name.
    #[arg(long)]
    replace: bool,
    /// Arguments of the program, such as --set memory=1g.
    #[arg(last = true, value_name = "ARGUMENT")]
    args: Vec<String>,
}

#[derive(Debug, Args)]
struct Remove {
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    User,
    Project,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::User => Self::User,
            ScopeName::Project => Self::Project,
        }
    }
}

fn client(name: &str) -> Result<String, String> {
    let names = || CLIENTS.iter().map(|client| client.name);
    if names().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let hint = match closest(name, names()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("use {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(format!("unknown client: {hint}"))
}

fn server_name(name: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(plain) {
        Ok(name.to_owned())
    } else {
        Err("use 1 to 64 letters, digits, \"-\" and \"_\"".to_owned())
    }
}

impl Clients {
    /// Settings are not read: a bad one must not keep anybody from this.
    pub(super) fn run(&self, host: &HostEnv) -> ExitCode {
        let paths = match search_paths(host) {
            Ok(paths) => paths,
            Err(problem) => {
                terminal::say(&problem);
                return exit::FAILED.into();
            }
        };
        match &self.command {
            Command::List(list) => {
                let text = if list.json {
                    format!("{:#}\n", report(&paths))
                } else {
                    table(&paths)
                };
                print(&text)
            }
            Command::Add(add) => {
                let command = match add.command.clone().map_or_else(|| program(host), Ok) {
                    Ok(command) => command,
                    Err(problem) => {
                        terminal::say(&problem);
                        return exit::FAILED.into();
                    }
                };
                let entry = Entry {
                    command: &command,
                    args: &add.args,
                };
                let name = &add.target.name;
                add.target
                    .apply(&paths, "entered", |file| file.add(name, entry, add.replace))
            }
            Command::Remove(remove) => {
                let name = &remove.target.name;
                remove
                    .target
                    .apply(&paths, "removed", |file| file.remove(name))
            }
        }
    }
}

impl Target {
    fn apply(
        &self,
        paths: &SearchPaths,
        done: &str,
        edit: impl Fn(&ClientFile) -> Result<Edit, EditError>,
    ) -> ExitCode {
        let scope = Scope::from(self.scope);
        let files = paths.client_files();
        let mut failed = false;
        let mut text = String::new();
        for name in &self.clients {
            let mut of_client = files.iter().filter(|file| file.client.name == name);
            let Some(file) = of_client.find(|file| file.scope == scope) else {
                terminal::say(&format!("{name} has no file for scope {}", scope.name()));
                failed = true;
                continue;
            };
            let shown = paths.shown(&file.path);
            match self.edit(file, &edit) {
                Ok(edit) if !edit.is_change() => {
                    let _ = writeln!(text, "{name}: {shown} is up to date");
                }
                Ok(edit) if self.dry_run => text += &edit.diff(&shown),
                Ok(_) => {
                    let _ = writeln!(text, "{name}: {done} in {shown}");
                }
                Err(error) => {
                    terminal::say(&format!("{name}: {shown} was left unchanged: {error}"));
                    failed = true;
                }
            }
        }
        let printed = print(&text);
        if failed { exit::FAILED.into() } else { printed }
    }

    /// Edits, and writes unless only asked what would change.
    fn edit(
        &self,
        file: &ClientFile,
        edit: impl Fn(&ClientFile) -> Result<Edit, EditError>,
    ) -> Result<Edit, EditError> {
        for _ in 1..TRIES {
            let edited = edit(file)?;
            if self.dry_run || !edited.is_change() {
                return Ok(edited);
            }
            match edited.write() {
                Ok(()) => return Ok(edited),
                Err(EditError::Changed) => {}
                Err(error) => return Err(error),
            }
        }
        let edited = edit(file)?;
        edited.write()?;
        Ok(edited)
    }
}

fn search_paths(host: &HostEnv) -> Result<SearchPaths, String> {
    let home = host
        .home()
        .ok_or("cannot find the clients' files: HOME is not set")?;
    let cwd = host
        .cwd()
        .map_err(|error| format!("cannot find the working directory: {error}"))?;
    let state_dir = home.join("MCPs");
    Ok(SearchPaths::new(
        home,
        cwd.to_owned(),
        state_dir,
        host.variables(),
    ))
}

/// This program by the name that survives an upgrade: as it is found on the search path, if that is
/// the same file, or a wrapper around it.
fn program(host: &HostEnv) -> Result<String, String> {
    let here = host.executable();
    let is_named = here.and_then(Path::file_name) == Some(PROGRAM.as_ref());
    let real = |path: &Path| path.canonicalize().ok();
    let found = host
        .find_program(PROGRAM)
        .filter(|found| !is_named || here.and_then(real) == real(found));
    let path: Option<PathBuf> = found.or_else(|| here.map(Path::to_owned));
    let path = path.ok_or("cannot find this program: name it with --command")?;
    let path = path.into_os_string().into_string();
    path.map_err(|path| {
        let path = path.display();
        format!("the path {path} is not UTF-8: name the program with --command")
    })
}

/// What is known of one file: the names of the bridge's entries there, or why that cannot be told.
fn own_entries(file: &ClientFile) -> Result<Vec<(String, String)>, EditError> {
    let servers = file.servers()?;
    let own = servers.into_iter().filter(Registered::is_own);
    Ok(own
        .map(|server| (server.name, server.command.unwrap_or_default()))
        .collect())
}

fn table(paths: &SearchPaths) -> String {
    let mut text = String::new();
    for file in paths.client_files() {
        let status = match own_entries(&file) {
            Err(error) => error.to_string(),
            Ok(entries) if !entries.is_empty() => {
                let entries = entries
                    .iter()
                    .map(|(name, command)| format!("{name} starts {command}"));
                entries.collect::<Vec<_>>().join(", ")
            }
            Ok(_) if file.scope == Scope::User && !file.client_is_installed(&paths.home) => {
                "client not found".to_owned()
            }
            Ok(_) => "not entered".to_owned(),
        };
        let _ = writeln!(
            text,
            "{:<16} {:<8} {:<52} {status}",
            file.client.name,
            file.scope.name(),
            paths.shown(&file.path)
        );
    }
    bridge_render::visible(&text).into_owned()
}

fn report(paths: &SearchPaths) -> Value {
    let files = paths.client_files();
    let clients = files.iter().map(|file| {
        let entries = own_entries(file);
        let error = entries.as_ref().err().map(ToString::to_string);
        let entries = entries.unwrap_or_default().into_iter();
        let entries = entries.map(|(name, command)| json!({"name": name, "command": command}));
        json!({
            "client": file.client.name,
            "title": file.client.title,
            "scope": file.scope.name(),
            "file": file.path.display().to_string(),
            "installed": file.client_is_installed(&paths.home),
            "entries": entries.collect::<Vec<_>>(),
            "error": error,
        })
    });
    json!({"clients": clients.collect::<Vec<_>>()})
}

fn print(text: &str) -> ExitCode {
    match terminal::out(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::say(&format!("cannot write: {error}"));
            exit::FAILED.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        clients: Clients,
    }

    fn parse(words: &[&str]) -> Result<Clients, clap::Error> {
        Line::try_parse_from([&["clients"], words].concat()).map(|line| line.clients)
    }

    #[test]
    fn wrong_usage_is_refused() {
        for right in [
            &["list", "--json"][..],
            &["add", "cursor", "zed", "--scope", "user", "--dry-run"],
            &["add", "cursor", "--", "--set", "memory=1g"],
            &["remove", "codex", "--name", "python"],
        ] {
            assert!(parse(right).is_ok(), "{right:?}");
        }
        for wrong in [
            &["add"][..],
            &["add", "emacs"],
            &["add", "cursor", "--name", "a b"],
            &["remove"],
            &["remove", "cursor", "--command", "x"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(
            client("cursr"),
            Err("unknown client: did you mean \"cursor\"?".to_owned())
        );
    }

    #[test]
    fn bridge_is_entered_shown_and_removed() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let host = HostEnv::fake_below(root.path(), []);
        let home = root.path().join("home");
        let file = home.join(".cursor/mcp.json");
        let run = |words: &[&str]| parse(words).expect("accepted").run(&host);
        let is_there = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("code"));
        let add = ["add", "cursor", "--command", "/opt/mcp-code-bridge"];

        run(&[&add[..], &["--dry-run"]].concat());
        assert!(!file.exists());
        run(&add);
        assert!(is_there());
        let shown = table(&search_paths(&host).expect("a home"));
        assert!(
            shown.contains("code starts /opt/mcp-code-bridge"),
            "{shown}"
        );
        let report = report(&search_paths(&host).expect("a home"));
        let cursor = report["clients"].as_array().and_then(|clients| {
            clients
                .iter()
                .find(|one| one["client"] == "cursor" && one["scope"] == "user")
        });
        assert_eq!(cursor.expect("listed")["entries"][0]["name"], "code");
        run(&["remove", "cursor"]);
        assert!(!is_there());
    }
}
