//! `config`: judges a settings file without starting anything.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bridge_settings::{Error, Problem, check_file};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{exit, terminal};

/// Checks settings files.
#[derive(Debug, Args)]
pub(super) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a settings file and name everything that is wrong, with its line.
    ///
    /// Flags and variables do not count, and nothing is started: the file is judged by itself.
    /// Exit code: 0 all is well, 1 something is wrong, 2 wrong usage.
    Check(Check),
}

#[derive(Debug, Args)]
struct Check {
    /// The settings file, such as bridge.yaml.
    file: PathBuf,
    /// Print the problems as JSON.
    #[arg(long)]
    json: bool,
}

impl Config {
    pub(super) fn run(&self) -> ExitCode {
        let Command::Check(check) = &self.command;
        let mut checked = check_file(&check.file);
        if let Err(error) = &mut checked {
            error.problems.sort_by_key(Problem::line);
        }
        let printed = match &checked {
            result if check.json => {
                terminal::out(format!("{:#}\n", report(&check.file, result)).as_bytes())
            }
            Ok(()) => terminal::out(format!("{}: ok\n", check.file.display()).as_bytes()),
            Err(error) => {
                for problem in &error.problems {
                    terminal::say(&problem.to_string());
                }
                Ok(())
            }
        };
        if let Err(error) = printed {
            terminal::say(&format!("cannot write: {error}"));
            return exit::FAILED.into();
        }
        match checked {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => exit::FAILED.into(),
        }
    }
}

fn report(file: &Path, checked: &Result<(), Error>) -> Value {
    let problems = checked
        .as_ref()
        .err()
        .map_or(&[][..], |error| &error.problems);
    let problems: Vec<Value> = problems
        .iter()
        .map(|problem| {
            json!({
                "line": problem.line(),
                "setting": problem.name(),
                "message": problem.message(),
            })
        })
        .collect();
    json!({"file": file.display().to_string(), "ok": problems.is_empty(), "problems": problems})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_names_every_problem_with_its_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("bridge.yaml");
        std::fs::write(&path, "memory: 1k\n\ntimout: 3\n").expect("written");
        let text = format!("{:#}", report(&path, &check_file(&path)));
        let text = text.replace(&path.display().to_string(), "bridge.yaml");
        insta::assert_snapshot!(text);
        std::fs::write(&path, "memory: 1g\n").expect("written");
        assert_eq!(report(&path, &check_file(&path))["ok"], json!(true));
    }
}
