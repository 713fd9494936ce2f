//! `servers`: which MCP servers are known and from which files, whether they start, and which tools they have.

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
    /// Show every server, every file considered, which definition won, and what is wrong.
    List(List),
    /// Start servers and see whether they list their tools.
    ///
    /// Exit code: 0 all of them work, 1 one does not or a definition is wrong, 2 wrong usage.
    Check(check::Check),
    /// Search the tools of all servers.
    ///
    /// Servers that were never started are named; `servers check` makes their tools known.
    /// Exit code: 0 something was found, 1 nothing.
    Search(Search),
    /// Log in to a server that wants an OAuth token, in the browser.
    ///
    /// Exit code: 0 logged in, 1 not, 2 wrong usage.
    Login(login::Login),
    /// Forget the token of a server.
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
    /// What to look for, in words.
    #[arg(required = true)]
    query: Vec<String>,
    /// Most tools to show.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Whole descriptions and the schemas of arguments, in JSON.
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
            Ok(places) => Catalog::load(places),
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

/// Prints, and says how it went.
fn print(text: &str, well: bool) -> ExitCode {
    match terminal::out(text.as_bytes()) {
        Ok(()) if well => ExitCode::SUCCESS,
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
    fn wrong_usage_is_refused() {
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
