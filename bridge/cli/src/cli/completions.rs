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
        finish(terminal::out(&script(self.shell)))
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

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "mcp-code-bridge", &mut script);
    if shell != Shell::Bash {
        return script;
    }
    // clap_complete writes the hyphens of a program's name in two ways, so that no label of a
    // subcommand matches (clap-rs/clap#6421).
    String::from_utf8_lossy(&script)
        .replace("mcp__subcmd__code__subcmd__bridge", "mcp__code__bridge")
        .into_bytes()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_completes_subcommands() {
        let script = String::from_utf8(script(Shell::Bash)).unwrap();
        assert!(
            script.contains("cmd=\"mcp__code__bridge__subcmd__config\""),
            "{script}"
        );
        assert!(
            script.contains("\n        mcp__code__bridge__subcmd__config)"),
            "{script}"
        );
        assert!(!script.contains("mcp__subcmd__code"));
    }
}
