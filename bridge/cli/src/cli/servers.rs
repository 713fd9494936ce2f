//! `servers`: shows, checks and searches the MCP servers that Python can use, and logs in to them.

mod check;
mod login;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{exit, host, telemetry, terminal};
use crate::report;
use bridge_catalog::Catalog;
use bridge_settings::Settings;
use bridge_tools::{Detail, ToolBook};

/// Shows the MCP servers that Python can use: those of every client on this machine.
#[derive(Debug, Args)]
pub(super) struct Servers {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List every server and every file considered, with what is wrong.
    List(List),
    /// Start servers and check that they list their tools.
    ///
    /// Exit code: 0 all servers work, 1 a server fails or a definition is wrong, 2 wrong usage.
    Check(check::Check),
    /// Search the tools of all servers.
    ///
    /// Servers whose tools are not known yet are named; `servers check` learns them.
    /// Exit code: 0 something was found, 1 nothing was found.
    Search(Search),
    /// Log in to a server that needs an OAuth token, in the browser.
    ///
    /// Exit code: 0 logged in, 1 the login failed, 2 wrong usage.
    Login(login::Login),
    /// Delete the OAuth token of a server.
    Logout(login::Logout),
}

#[derive(Debug, Args)]
struct List {
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Search {
    /// Words to search for.
    #[arg(required = true)]
    query: Vec<String>,
    /// The most tools to show.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Include whole descriptions and the schemas of arguments.
    #[arg(long, requires = "json")]
    full: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

impl Servers {
    pub(super) fn run(self, settings: &Settings) -> ExitCode {
        telemetry::start_quietly(settings);
        let catalog = match host::search_paths(settings) {
            Ok(search_paths) => Catalog::load(search_paths),
            Err(problem) => {
                terminal::say(&problem);
                return exit::FAILED.into();
            }
        };
        let book = ToolBook::new(host::cache(settings));
        match self.command {
            Command::List(list) => {
                let text = if list.json {
                    format!("{:#}\n", report::json(&catalog, &book))
                } else {
                    report::table(&catalog, &book)
                };
                print(&text, true)
            }
            Command::Search(search) => {
                let findings = book.search(&catalog, &search.query.join(" "), search.limit.into());
                let detail = if search.full {
                    Detail::Full
                } else {
                    Detail::Summary
                };
                let text = if search.json {
                    format!("{:#}\n", report::findings_json(&findings, detail))
                } else {
                    report::findings_table(&findings)
                };
                print(&text, !findings.hits.is_empty())
            }
            Command::Check(check) => check.run(
                &catalog,
                &book,
                host::options(settings, catalog.search_paths(), host::guardian(settings)),
            ),
            Command::Login(login) => login.run(&catalog, host::tokens(settings)),
            Command::Logout(logout) => logout.run(&catalog, host::tokens(settings)),
        }
    }
}

/// Prints `text`; the exit code is 0 if `is_success` and it could be written.
fn print(text: &str, is_success: bool) -> ExitCode {
    match terminal::out(text.as_bytes()) {
        Ok(()) if is_success => ExitCode::SUCCESS,
        Ok(()) => exit::FAILED.into(),
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
        servers: Servers,
    }

    #[test]
    fn wrong_usage_is_rejected() {
        let parse = |words: &[&str]| Line::try_parse_from([&["servers"], words].concat());
        for right in [
            &["list"][..],
            &["list", "--json"],
            &["check", "a", "b", "--timeout", "30s"],
            &["search", "open", "issue", "--json", "--full"],
            &["login", "a"],
            &["logout", "a"],
        ] {
            assert!(parse(right).is_ok(), "{right:?}");
        }
        for wrong in [
            &[][..],
            &["login"],
            &["search"],
            &["search", "x", "--limit", "0"],
            &["search", "x", "--full"],
            &["check", "--timeout", "soon"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
