//! The command line: turns arguments into settings and runs one subcommand, each of which has a
//! file below `cli/`. Nothing else prints to the terminal: data goes to stdout, everything else to
//! stderr.

mod bridge;
mod clients;
mod completions;
mod config;
mod doctor;
mod host;
mod image;
mod memory;
mod progress;
mod run;
mod serve;
mod servers;
mod signals;
mod telemetry;
mod terminal;
mod time;
mod tools;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use bridge_common::host::HostEnv;
use bridge_settings::{self as settings, Overrides, Settings};

/// The documented exit codes.
mod exit {
    pub(super) const FAILED: u8 = 1;
    pub(super) const USAGE: u8 = 2;
    pub(super) const NO_SANDBOX: u8 = 3;
    pub(super) const TIME_LIMIT: u8 = 124;
}

/// Offers MCP clients one tool, `run_python`: Python in a verified, persistent, hardened container.
///
/// Without a command it serves MCP on standard input and output.
#[derive(Debug, Parser)]
#[command(name = "mcp-code-bridge", version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    settings: SettingArguments,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve MCP on standard input and output (the default), or over HTTP.
    Serve(serve::Serve),
    /// Run Python once, as the tool would.
    Run(run::Run),
    /// Show, check and search the MCP servers that Python can use.
    Servers(servers::Servers),
    /// Show and delete what code has saved for later sessions.
    Memory(memory::Memories),
    /// Show and delete the functions that code has saved.
    Tools(tools::SavedTools),
    /// Build, load and verify the guest image.
    Image(image::Image),
    /// Check everything a sandbox needs, and say how to fix what is wrong.
    Doctor(doctor::Doctor),
    /// Register this bridge with MCP clients.
    Clients(clients::Clients),
    /// Check a settings file.
    Config(config::Config),
    /// Print a completion script for a shell.
    Completions(completions::Completions),
    /// Print the manual page, or write one for every command.
    Man(completions::Man),
    /// Clean up after a bridge that was killed; started by the bridge itself.
    #[command(name = bridge_guardian::SUBCOMMAND, hide = true)]
    Guardian,
}

/// Flags that take precedence over variables and the settings file.
#[derive(Debug, Args)]
struct SettingArguments {
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Settings",
        help = "Settings file [env: MCP_BRIDGE_CONFIG, default: bridge.yaml in the state folder or ~/.config/mcp-code-bridge]"
    )]
    config: Option<PathBuf>,
    #[arg(long, global = true, value_name = "ENGINE", help_heading = "Settings", help = settings::flag_help("runtime"))]
    runtime: Option<String>,
    #[arg(long, global = true, value_name = "DIR", help_heading = "Settings", help = settings::flag_help("state_dir"))]
    state_dir: Option<PathBuf>,
    #[arg(long, global = true, value_name = "MODE", help_heading = "Settings", help = settings::flag_help("output_mode"))]
    output_mode: Option<String>,
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Settings", help = settings::flag_help("log_level"))]
    log_level: Option<String>,
    /// Any setting, such as memory=1g; may be repeated.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = key_and_value, help_heading = "Settings")]
    set: Vec<(String, String)>,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, such as memory=1g".to_owned()),
    }
}

impl SettingArguments {
    fn overrides(&self) -> Overrides {
        let given =
            |flag: &str, key: &str, value: OsString| (format!("--{flag}"), key.to_owned(), value);
        let mut values = Vec::new();
        for (key, value) in &self.set {
            values.push((format!("--set {key}"), key.clone(), value.into()));
        }
        values.extend(
            self.runtime
                .as_ref()
                .map(|value| given("runtime", "runtime", value.into())),
        );
        values.extend(
            self.state_dir
                .as_ref()
                .map(|value| given("state-dir", "state_dir", value.into())),
        );
        values.extend(
            self.output_mode
                .as_ref()
                .map(|value| given("output-mode", "output_mode", value.into())),
        );
        values.extend(
            self.log_level
                .as_ref()
                .map(|value| given("log-level", "log_level", value.into())),
        );
        Overrides {
            config: self.config.clone(),
            values,
        }
    }

    /// Loads the settings; flags of the command itself take precedence.
    fn load(&self, command: Option<&Command>, host: &HostEnv) -> Result<Settings, settings::Error> {
        let mut overrides = self.overrides();
        if let Some(Command::Serve(serve)) = command {
            overrides.values.extend(serve.overrides());
        }
        Settings::load(&overrides, host)
    }
}

/// Runs the program with these arguments, the first of which is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match command()
        .try_get_matches_from(arguments)
        .and_then(|matches| Arguments::from_arg_matches(&matches))
    {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap reports help and version as errors and prints them to stdout. A closed terminal
            // can be ignored.
            let _ = error.print();
            return if error.use_stderr() {
                exit::USAGE.into()
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let Arguments { settings, command } = arguments;
    match command {
        Some(Command::Completions(completions)) => return completions.print(),
        Some(Command::Man(man)) => return man.print(),
        Some(Command::Config(config)) => return config.run(),
        Some(Command::Clients(clients)) => return clients.run(&HostEnv::of_process()),
        // Needs no settings, so an invalid one must not make it fail.
        Some(Command::Guardian) => {
            bridge_guardian::run(std::io::stdin().lock(), |owners| {
                bridge_engine::remove_leftovers(&HostEnv::of_process(), owners);
            });
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let host = HostEnv::of_process();
    let loaded = settings.load(command.as_ref(), &host);
    let loaded = match (loaded, &command) {
        (Ok(loaded), _) => loaded,
        (Err(error), Some(Command::Doctor(doctor))) => return doctor.bad_settings(&host, &error),
        (Err(error), _) => {
            terminal::say(&error.to_string());
            return exit::USAGE.into();
        }
    };
    if let None | Some(Command::Serve(_) | Command::Run(_)) = &command
        && let Err(nested) = host::check_depth(&loaded)
    {
        terminal::say(&nested.to_string());
        return exit::FAILED.into();
    }
    match command {
        None => serve::on_stdio(loaded),
        Some(Command::Serve(_)) => serve::serve(loaded),
        Some(Command::Run(run)) => run.run(&loaded),
        Some(Command::Servers(servers)) => servers.run(&loaded),
        Some(Command::Memory(memories)) => memories.run(&loaded),
        Some(Command::Tools(tools)) => tools.run(&loaded),
        Some(Command::Image(image)) => image.run(&loaded),
        Some(Command::Doctor(doctor)) => doctor.run(&loaded),
        Some(
            Command::Clients(_)
            | Command::Completions(_)
            | Command::Config(_)
            | Command::Man(_)
            | Command::Guardian,
        ) => ExitCode::SUCCESS,
    }
}

/// The command line with the table of settings in its long help.
pub fn command() -> clap::Command {
    Arguments::command().after_long_help(settings::help())
}

/// Runs `work` on a runtime of its own. Does not wait for what still blocks afterwards, such as a
/// read from a terminal.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        terminal::say(&format!("cannot start the runtime: {error}"));
        ExitCode::from(exit::FAILED)
    })?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from([&["mcp-code-bridge"], arguments].concat())
    }

    #[test]
    fn command_line_passes_the_checks_of_clap() {
        command().debug_assert();
    }

    #[test]
    fn flags_after_a_command_become_overrides_too() {
        let parsed = parse(&[
            "run",
            "-c",
            "1",
            "--set",
            "memory=1g",
            "--runtime",
            "podman",
        ])
        .expect("accepted");
        let overrides = parsed.settings.overrides();
        assert_eq!(
            overrides.values[0],
            ("--set memory".to_owned(), "memory".to_owned(), "1g".into())
        );
        assert_eq!(
            overrides.values[1],
            (
                "--runtime".to_owned(),
                "runtime".to_owned(),
                "podman".into()
            )
        );
    }

    #[test]
    fn wrong_usage_is_rejected() {
        for wrong in [
            &["nonsense"][..],
            &["--set", "memory"],
            &["run", "-c", "1", "file.py"],
            &["image"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn help_matches_the_snapshot() {
        insta::assert_snapshot!(command().render_long_help().to_string());
    }
}
