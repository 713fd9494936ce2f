//! `completions` and `man`: the files that a packager installs beside the program.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use super::{command, exit, terminal};

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
pub(super) struct Completions {
    shell: Shell,
}

/// Prints the manual page.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// Write a page for every command into this folder instead.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Completions {
    pub(super) fn print(&self) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command(), "mcp-code-bridge", &mut script);
        finish(terminal::out(&script))
    }
}

impl Man {
    pub(super) fn print(&self) -> ExitCode {
        if let Some(folder) = &self.out {
            let written = std::fs::create_dir_all(folder);
            return finish(written.and_then(|()| clap_mangen::generate_to(command(), folder)));
        }
        let mut page = Vec::new();
        finish(
            clap_mangen::Man::new(command())
                .render(&mut page)
                .and_then(|()| terminal::out(&page)),
        )
    }
}

fn finish(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::say(&format!("cannot write: {error}"));
            exit::FAILED.into()
        }
    }
}
