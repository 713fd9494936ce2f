//! `run`: runs code once, through the same path as the tool. What the code writes to stdout and
//! stderr goes to this program's stdout and stderr, byte for byte.

mod keep;

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::bridge::Bridge;
use super::progress::Bars;
use super::time::time;
use super::{block_on, exit, signals, telemetry, terminal};
use bridge_common::human::count;
use bridge_render::Rendered;
use bridge_server::{CallDefaults, Rejected, UNCUT, request};
use bridge_session::{CODE_LIMIT, RunOutcome, Sessions, Status};
use bridge_settings::Settings;

/// Runs Python once in a sandbox of its own; its variables live as long as this process.
///
/// Exit code: 0 success, 1 the code failed, 2 wrong usage, 3 no sandbox can be started, 124 the
/// time limit was reached, 128 plus the signal's number after a signal.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Python source to run.
    #[arg(
        short,
        value_name = "CODE",
        conflicts_with = "file",
        allow_hyphen_values = true
    )]
    code: Option<String>,
    /// File with Python source; `-` for standard input.
    file: Option<PathBuf>,
    /// MCP server that the code may use; may be given several times.
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<String>,
    /// Name of the session, as the code sees it.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Time limit, such as 30, 30s or 2m.
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Folder to save displayed pictures and documents and files from /workspace/out in; existing
    /// files are never overwritten.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the whole answer as one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(super) fn run(self, settings: &Settings) -> ExitCode {
        telemetry::start_quietly(settings);
        let code = match self.source() {
            Ok(code) => code,
            Err(problem) => return wrong(&problem),
        };
        let defaults = CallDefaults::new(settings);
        let cancel = CancellationToken::new();
        let request = match request(
            code,
            self.session.clone(),
            self.timeout,
            self.servers.clone(),
            &defaults,
            cancel.clone(),
        ) {
            Ok(request) => request,
            Err(problem) => return wrong(&problem),
        };
        let finished = block_on(async {
            let received = signals::cancel_on_signal(cancel);
            let bridge = Bridge::new(&for_one_run(settings));
            let bars = Arc::new(Bars::on_terminal());
            let outcome = bridge.sessions.run(request, bars.clone()).await;
            bars.finish();
            let outcome = outcome.map_err(Rejected::from);
            let extras = match &outcome {
                Ok(outcome) => self.extras(outcome, &bridge.sessions).await,
                Err(_) => Vec::new(),
            };
            let code = self.print(outcome);
            for line in extras {
                terminal::say(&line);
            }
            // Cleans up after the answer is out, so that its reader does not wait.
            bridge.close().await;
            received
                .ok()
                .and_then(|received| received.exit_code())
                .map_or(code, ExitCode::from)
        });
        finished.unwrap_or_else(|code| code)
    }

    /// Saves pictures, documents and files if `--out` asks for it; returns the lines to print about
    /// them.
    async fn extras(&self, outcome: &RunOutcome, sessions: &Sessions) -> Vec<String> {
        let (displays, files) = (&outcome.output.displays, &outcome.output.files);
        let mut lines = match &self.out {
            Some(folder) => {
                let session = (sessions, outcome.identity.session.as_str());
                keep::save(folder, displays, files, session).await
            }
            None if displays.shown.is_empty() && files.is_empty() => Vec::new(),
            None => vec![format!(
                "{} shown, {} in /workspace/out; --out DIR saves them",
                displays.shown.len(),
                files.len()
            )],
        };
        if displays.left_out > 0 {
            lines.push(format!("{} more could not be shown", displays.left_out));
        }
        lines
    }

    /// Reads the source from the argument, the file or standard input.
    fn source(&self) -> Result<String, String> {
        if let Some(code) = &self.code {
            return Ok(code.clone());
        }
        let (name, bytes) = match &self.file {
            Some(path) if path != Path::new("-") => {
                let file = std::fs::File::open(path);
                (path.display().to_string(), file.and_then(read))
            }
            None if std::io::stdin().is_terminal() => {
                return Err(
                    "no code to run: give -c CODE, a file, or - for standard input".to_owned(),
                );
            }
            _ => ("standard input".to_owned(), read(std::io::stdin().lock())),
        };
        let bytes = bytes.map_err(|error| format!("cannot read {name}: {error}"))?;
        if bytes.len() > CODE_LIMIT {
            return Err(format!(
                "{name} is larger than {} MiB, the most that a run may have",
                CODE_LIMIT >> 20
            ));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            format!(
                "{name} is not UTF-8 (byte {}); save it as UTF-8",
                error.utf8_error().valid_up_to() + 1
            )
        })?;
        // Python skips a byte order mark too.
        Ok(text
            .strip_prefix('\u{feff}')
            .map(str::to_owned)
            .unwrap_or(text))
    }

    fn print(&self, outcome: Result<RunOutcome, Rejected>) -> ExitCode {
        let code = exit_code(&outcome);
        let printed = match outcome {
            outcome if self.json => print_json(outcome, self.session.is_some()),
            Ok(outcome) => print_outcome(&outcome),
            Err(rejected) => {
                terminal::say(&rejected.to_string());
                Ok(())
            }
        };
        if let Err(error) = printed {
            terminal::say(&format!("cannot write the output: {error}"));
            return exit::FAILED.into();
        }
        code.into()
    }
}

/// The settings without a spare guest, since no second session will start.
fn for_one_run(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.session.spare = false;
    settings
}

fn read(reader: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(CODE_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn wrong(problem: &str) -> ExitCode {
    terminal::say(problem);
    exit::USAGE.into()
}

fn exit_code(outcome: &Result<RunOutcome, Rejected>) -> u8 {
    match outcome {
        Ok(outcome) => match outcome.status() {
            Status::Success => 0,
            Status::Error => exit::FAILED,
            Status::Timeout => exit::TIME_LIMIT,
            // `Running` cannot happen, as no run is left running here.
            Status::Cancelled | Status::Running => 130,
        },
        Err(Rejected::Invalid(_)) => exit::USAGE,
        Err(Rejected::NoSandbox { .. } | Rejected::Busy { .. }) => exit::NO_SANDBOX,
    }
}

fn print_json(outcome: Result<RunOutcome, Rejected>, named: bool) -> std::io::Result<()> {
    let structured = match outcome {
        Ok(outcome) => Rendered::of_run(&outcome, named, UNCUT).structured(),
        Err(rejected) => rejected.to_rendered().structured(),
    };
    terminal::out(format!("{structured}\n").as_bytes())
}

/// Prints both streams as they are, and then everything else on stderr.
fn print_outcome(outcome: &RunOutcome) -> std::io::Result<()> {
    let (stdout, stderr) = (&outcome.output.stdout, &outcome.output.stderr);
    terminal::out(&stdout.bytes)?;
    terminal::err(&stderr.bytes)?;
    if let Some(result) = outcome.ending.result() {
        let starts_line = stdout.bytes.last().is_none_or(|byte| *byte == b'\n');
        let result = format!("{}{result}\n", if starts_line { "" } else { "\n" });
        terminal::out(result.as_bytes())?;
    }
    let is_cut_short = stderr.bytes.last().is_some_and(|byte| *byte != b'\n');
    if is_cut_short && outcome.status() != Status::Success {
        terminal::err(b"\n")?;
    }
    for (name, dropped) in [("stdout", stdout.dropped), ("stderr", stderr.dropped)] {
        if dropped > 0 {
            terminal::say(&format!(
                "output limit reached: {} more bytes of {name} were dropped",
                count(dropped)
            ));
        }
    }
    let answer = Rendered::of_only_run(outcome);
    if let Some(note) = answer.note() {
        terminal::say(&format!("note: {note}"));
    }
    match (answer.error(), answer.reason()) {
        (Some(error), None) => {
            terminal::err(format!("{}\n", error.trim_end_matches('\n')).as_bytes())?;
        }
        (Some(error), Some(_)) => terminal::say(error),
        (None, _) => {}
    }
    if let Some(calls) = answer.tool_call_news() {
        terminal::say(&format!("tool calls: {calls}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_common::host::HostEnv;
    use bridge_settings::Overrides;

    fn run(code: Option<&str>, file: Option<&Path>) -> Run {
        Run {
            code: code.map(str::to_owned),
            file: file.map(Path::to_owned),
            servers: Vec::new(),
            session: None,
            timeout: None,
            out: None,
            json: false,
        }
    }

    #[test]
    fn source_is_read_from_a_file_within_bounds() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("code.py");
        let check = |bytes: &[u8], expected: Result<&str, &str>| {
            std::fs::write(&path, bytes).expect("written");
            match (run(None, Some(&path)).source(), expected) {
                (Ok(source), Ok(expected)) => assert_eq!(source, expected),
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{problem}"),
                (found, _) => panic!("{found:?}"),
            }
        };
        check(b"print(1)\n", Ok("print(1)\n"));
        check(b"\xef\xbb\xbfprint(1)", Ok("print(1)"));
        check(b"x = '\xff'", Err("not UTF-8 (byte 6)"));
        check(&vec![b'#'; CODE_LIMIT + 1], Err("larger than 12 MiB"));
        let missing = run(None, Some(Path::new("/nonexistent/code.py"))).source();
        assert!(
            missing
                .expect_err("read")
                .contains("cannot read /nonexistent/code.py")
        );
        assert_eq!(run(Some("1"), None).source().expect("given"), "1");
    }

    #[test]
    fn settings_of_one_run_have_no_spare_guest() {
        let host = HostEnv::fake([("HOME", "/nonexistent")]);
        let settings = Settings::load(&Overrides::default(), &host).expect("accepted");
        assert!(settings.session.spare && !for_one_run(&settings).session.spare);
    }

    #[test]
    fn exit_codes_match_the_documentation() {
        let code_of = |rejected| exit_code(&Err(rejected));
        assert_eq!(code_of(Rejected::Invalid(String::new())), 2);
        assert_eq!(
            code_of(Rejected::NoSandbox {
                code: "E0",
                message: String::new()
            }),
            3
        );
    }
}
