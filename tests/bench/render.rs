//! Rendering a megabyte of output to text and structured content, whole and cut, in both modes.

use std::time::{Duration, Instant};

use bridge_broker::Summary;
use bridge_render::Rendered;
use bridge_session::{Captured, Ending, RunIdentity, RunOutcome, RunOutput};
use bridge_settings::OutputMode;

/// The median of `rounds` in milliseconds; `text_bytes` limits the text.
pub(crate) fn megabyte(mode: OutputMode, text_bytes: u64, rounds: usize) -> f64 {
    let line =
        "a line of output, é and \u{1b}[31mcolours\u{1b}[0m included, as programs print them\n";
    let bytes = line.repeat(1_000_000 / line.len()).into_bytes();
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let outcome = outcome(bytes.clone());
            let begun = Instant::now();
            let answer = Rendered::of_run(&outcome, false, text_bytes);
            let text = answer.text(mode);
            let structured = answer.structured();
            let took = begun.elapsed();
            assert!(!text.is_empty() && structured.is_object());
            took
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn outcome(stdout: Vec<u8>) -> RunOutcome {
    RunOutcome {
        identity: RunIdentity {
            session: "default".to_owned(),
            cell: 1,
            timeout: Duration::from_secs(30),
            ..RunIdentity::default()
        },
        ending: Ending::Success {
            result: None,
            exit_code: None,
        },
        output: RunOutput {
            stdout: Captured {
                bytes: stdout,
                ..Captured::default()
            },
            ..RunOutput::default()
        },
        notes: Vec::new(),
        calls: Summary::default(),
    }
}
