//! The exact text of every kind of answer, in both modes.

mod besides;
mod toon;

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::*;
use bridge_broker::Summary;
use bridge_session::{
    Captured, Death, Ending, Exception, ExitStatus, Loss, Note, Obstacle, Reaction, RunIdentity,
    RunOutcome, RunOutput, Stop,
};
use bridge_settings::OutputMode;

fn outcome(ending: Ending) -> RunOutcome {
    RunOutcome {
        identity: RunIdentity {
            session: "main".to_owned(),
            cell: 7,
            timeout: Duration::from_secs(30),
            ..RunIdentity::default()
        },
        ending,
        output: RunOutput::default(),
        notes: Vec::new(),
        calls: Summary::default(),
    }
}

fn success() -> Ending {
    Ending::Success {
        result: None,
        exit_code: None,
    }
}

fn printed(text: &str) -> Captured {
    Captured {
        bytes: text.as_bytes().to_vec(),
        ..Captured::default()
    }
}

/// An outcome with this standard output and standard error.
fn with_output(ending: Ending, stdout: Captured, stderr: Captured) -> RunOutcome {
    RunOutcome {
        output: RunOutput {
            stdout,
            stderr,
            ..RunOutput::default()
        },
        ..outcome(ending)
    }
}

fn with_stdout(ending: Ending, text: &str) -> RunOutcome {
    with_output(ending, printed(text), Captured::default())
}

fn raised(class: &str, message: &str, traceback: &str) -> Ending {
    Ending::Raised {
        exception: Exception {
            class: class.to_owned(),
            message: message.to_owned(),
            traceback: traceback.to_owned(),
        },
        result: None,
    }
}

fn timeout() -> Ending {
    let place = Some("cell 7, line 3 (time.sleep)".to_owned());
    Ending::Stopped {
        by: Stop::TimeLimit,
        reaction: Reaction::Interrupted { place },
    }
}

fn memory() -> Ending {
    let death = Death::Memory {
        limit: 512 << 20,
        certain: true,
    };
    Ending::Died {
        death,
        stopped: None,
    }
}

fn rendered(outcome: &RunOutcome) -> Rendered<'_> {
    Rendered::of_run(outcome, false, 32_000)
}

fn text(outcome: &RunOutcome) -> String {
    rendered(outcome).text(OutputMode::Compact)
}

/// Both texts and the structured content of one answer.
fn all(answer: &Rendered<'_>) -> String {
    format!(
        "{}\n--- toon\n{}\n--- structured, isError {}\n{}",
        answer.text(OutputMode::Compact),
        answer.text(OutputMode::Toon),
        answer.is_error(),
        answer.structured(),
    )
}

#[test]
fn output_is_the_answer() {
    let run = with_stdout(success(), "a\n\n b\n");
    assert_eq!(text(&run), "a\n\n b\n");
    insta::assert_snapshot!(all(&rendered(&run)));
}

#[test]
fn nothing_printed() {
    insta::assert_snapshot!(all(&rendered(&outcome(success()))));
}

#[test]
fn a_result_follows_the_output() {
    let ending = Ending::Success {
        result: Some("[{'id': 1}, {'id': 2}]".to_owned()),
        exit_code: None,
    };
    let run = with_output(ending, printed("working"), printed("careful\n"));
    insta::assert_snapshot!(all(&rendered(&run)));
}

#[test]
fn an_exception() {
    let traceback = "Traceback (most recent call last):\n  cell 4, line 2, in <module>\n    \
                     total = sum(i[\"price\"] for i in items)\nKeyError: 'price'\n";
    let ending = raised("KeyError", "'price'", traceback);
    let run = with_output(ending, printed("so far\n"), printed("warned"));
    insta::assert_snapshot!(all(&rendered(&run)));
}

#[test]
fn an_exception_without_traceback() {
    let run = outcome(raised("SyntaxError", "invalid syntax", ""));
    insta::assert_snapshot!(all(&rendered(&run)));
}

#[test]
fn exception_class_in_lower_case_is_not_a_reason() {
    let structured = rendered(&outcome(raised("oops", "no", ""))).structured();
    assert_eq!(
        (&structured["error"], structured.get("reason")),
        (&Value::from("oops: no"), None)
    );
}

#[test]
fn sys_exit() {
    insta::assert_snapshot!(all(&rendered(&outcome(Ending::Exit { code: 3 }))));
    let zero = Ending::Success {
        result: None,
        exit_code: Some(0),
    };
    assert_eq!(text(&with_stdout(zero, "done\n")), "done\n");
}

#[test]
fn a_time_limit_with_variables_kept() {
    insta::assert_snapshot!(all(&rendered(&with_stdout(timeout(), "step 1\n"))));
}

#[test]
fn nothing_is_said_of_variables_that_end_with_the_session() {
    let run = outcome(timeout());
    assert_eq!(
        Rendered::of_only_run(&run).error(),
        Some("stopped after 30 s in cell 7, line 3 (time.sleep)")
    );
}

#[test]
fn a_traceback_follows_the_message_of_a_stopped_run() {
    let run = outcome(Ending::Stopped {
        by: Stop::TimeLimit,
        reaction: Reaction::Finished {
            traceback: "Traceback\nKeyError\n".to_owned(),
            result: None,
            exit_code: None,
        },
    });
    assert_eq!(
        rendered(&run).error(),
        Some(
            "stopped after 30 s: the code handled the interrupt itself and ended; variables are kept\nTraceback\nKeyError"
        )
    );
}

#[test]
fn variables_lost_then_a_fresh_session() {
    insta::assert_snapshot!(all(&rendered(&outcome(memory()))));
    let next = RunOutcome {
        notes: vec![Note::FreshSession(Loss::Stopped(Stop::TimeLimit))],
        ..with_stdout(success(), "1\n")
    };
    insta::assert_snapshot!("fresh_session", all(&rendered(&next)));
}

#[test]
fn a_guest_that_ended_by_itself() {
    let death = Death::Exit {
        status: ExitStatus(139),
        last_words: "Fatal Python error".to_owned(),
    };
    let run = outcome(Ending::Died {
        death,
        stopped: None,
    });
    assert_eq!(
        text(&run),
        "status: error\nerror: the Python process ended: exit 139 (SIGSEGV); variables are lost\n\
         its last words: Fatal Python error"
    );
}

#[test]
fn cancelled() {
    let run = outcome(Ending::Stopped {
        by: Stop::Cancelled,
        reaction: Reaction::Interrupted { place: None },
    });
    insta::assert_snapshot!(all(&rendered(&run)));
}

#[test]
fn cancelled_before_it_began() {
    let run = outcome(Ending::not_started(Obstacle::Withdrawn));
    assert_eq!(
        text(&run),
        "status: cancelled\ncancelled before it began; nothing was run"
    );
}

#[test]
fn wrong_arguments() {
    let message = "no argument \"timout\" (did you mean timeout?); arguments: code, servers, timeout, session, reset";
    insta::assert_snapshot!(all(&Rendered::invalid(message)));
}

#[test]
fn no_sandbox() {
    let message = "no container engine answers: tried podman (/run/user/1000/podman/podman.sock: connection \
                   refused).\nDetails: mcp-code-bridge doctor";
    insta::assert_snapshot!(all(&Rendered::refused("E0", message)));
}

#[test]
fn output_beyond_the_limit() {
    let stdout = Captured {
        bytes: "ab\u{e9}".as_bytes()[..3].to_vec(),
        dropped: 1_234_567,
        ..Captured::default()
    };
    let stderr = Captured {
        dropped: 5,
        ..Captured::default()
    };
    insta::assert_snapshot!(all(&rendered(&with_output(success(), stdout, stderr))));
}

#[test]
fn a_run_that_goes_on() {
    let mut run = with_stdout(Ending::Running, "epoch 1\n");
    run.notes = vec![Note::FreshSession(Loss::Reset)];
    run.identity.run = Some("k3f9x2abcd".to_owned());
    run.identity.elapsed = Duration::from_millis(12_900);
    insta::assert_snapshot!(all(&rendered(&run)));
}

#[test]
fn output_beyond_the_budget() {
    let mut text = String::new();
    for line in 0..5000 {
        let _ = writeln!(text, "line {line}");
    }
    let run = with_output(success(), printed(&text), printed("careful\n"));
    insta::assert_snapshot!(all(&Rendered::of_run(&run, false, 300)));
    let lost = RunOutcome {
        ending: memory(),
        ..run.clone()
    };
    let text = Rendered::of_run(&lost, false, 300).text(OutputMode::Compact);
    assert!(
        text.contains(" bytes) left out ...\n") && !text.contains("last_output"),
        "{text}"
    );
    let structured = Rendered::of_run(&run, false, 1 << 20).structured();
    assert_eq!(
        (
            structured.get("stdoutDropped"),
            structured.get("stderrDropped")
        ),
        (None, None)
    );
}

#[test]
fn a_long_stderr_and_a_long_traceback_leave_room_for_the_output() {
    let ending = raised("E", "m", &"frame\n".repeat(10_000));
    let stderr = printed(&"err\n".repeat(10_000));
    let run = with_output(ending, printed(&"out\n".repeat(10)), stderr);
    let answer = Rendered::of_run(&run, false, 4000);
    let view = answer.run.as_ref().expect("a run");
    assert_eq!(view.stdout.text, "out\n".repeat(10));
    assert_eq!(view.stdout.left_out, 0);
    assert!(view.stderr.left_out > 35_000 && view.stderr.text.len() < 4200);
    assert!(
        view.stderr
            .text
            .contains("runtime.last_output.stderr.lines(")
    );
    assert!(answer.error().expect("an error").len() < 2200);
}

#[test]
fn bytes_and_controls_are_made_visible() {
    let stdout = Captured {
        bytes: b"\x1b[31mred\xff\r\nplain \xf0\x9f\xa6\x80\n".to_vec(),
        ..Captured::default()
    };
    let run = with_output(success(), stdout, Captured::default());
    insta::assert_snapshot!(all(&rendered(&run)));
}

#[test]
fn a_named_session_is_mentioned_in_the_structured_content() {
    let run = outcome(success());
    let named = Rendered::of_run(&run, true, 32_000);
    assert_eq!(named.structured()["session"], "main");
}
