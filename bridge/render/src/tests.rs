//! The exact text of every kind of answer, in both modes.

mod toon;

use std::fmt::Write as _;
use std::time::Duration;

use super::*;
use bridge_broker::Tally;
use bridge_session::Captured;

fn outcome(status: Status) -> RunOutcome {
    RunOutcome {
        cell: 7,
        ..RunOutcome::bare("main", status, Duration::from_secs(30))
    }
}

fn printed(text: &str) -> Captured {
    Captured {
        bytes: text.as_bytes().to_vec(),
        ..Captured::default()
    }
}

fn failure(kind: &str, message: &str, traceback: &str) -> RunError {
    RunError {
        kind: kind.to_owned(),
        message: message.to_owned(),
        traceback: traceback.to_owned(),
    }
}

fn payload(outcome: RunOutcome) -> Payload {
    Payload::of_run(outcome, false, 32_000)
}

fn calls(tools: &[(&str, u64, u64)], cancelled: &[&str]) -> Summary {
    let tally = |(tool, done, failed): &(&str, u64, u64)| Tally {
        tool: (*tool).to_owned(),
        done: *done,
        failed: *failed,
    };
    Summary {
        done: tools.iter().map(|(_, done, _)| done).sum(),
        tools: tools.iter().map(tally).collect(),
        cancelled: cancelled.iter().map(|tool| (*tool).to_owned()).collect(),
        not_started: 0,
    }
}

/// Both texts and the structured content of one payload.
fn all(payload: &Payload) -> String {
    format!(
        "{}\n--- toon\n{}\n--- structured, isError {}\n{}",
        payload.text(OutputMode::Compact),
        payload.text(OutputMode::Toon),
        payload.is_error(),
        payload.structured(),
    )
}

#[test]
fn output_is_the_answer() {
    let run = RunOutcome {
        stdout: printed("a\n\n b\n"),
        ..outcome(Status::Success)
    };
    assert_eq!(payload(run.clone()).text(OutputMode::Compact), "a\n\n b\n");
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn nothing_printed() {
    insta::assert_snapshot!(all(&payload(outcome(Status::Success))));
}

#[test]
fn a_result_follows_the_output() {
    let run = RunOutcome {
        stdout: printed("working"),
        result: Some("[{'id': 1}, {'id': 2}]".to_owned()),
        stderr: printed("careful\n"),
        ..outcome(Status::Success)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn an_exception() {
    let traceback = "Traceback (most recent call last):\n  cell 4, line 2, in <module>\n    \
                     total = sum(i[\"price\"] for i in items)\nKeyError: 'price'\n";
    let run = RunOutcome {
        stdout: printed("so far\n"),
        stderr: printed("warned"),
        error: Some(failure("KeyError", "'price'", traceback)),
        ..outcome(Status::Error)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn an_exception_without_traceback() {
    let run = RunOutcome {
        error: Some(failure("SyntaxError", "invalid syntax", "")),
        ..outcome(Status::Error)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn an_exception_class_in_lower_case_is_no_reason_of_ours() {
    let run = RunOutcome {
        error: Some(failure("oops", "no", "")),
        ..outcome(Status::Error)
    };
    let structured = payload(run).structured();
    assert_eq!(
        (&structured["error"], structured.get("reason")),
        (&Value::from("oops: no"), None)
    );
}

#[test]
fn sys_exit() {
    let run = RunOutcome {
        exit_code: Some(3),
        error: Some(failure("SystemExit", "3", "")),
        ..outcome(Status::Error)
    };
    insta::assert_snapshot!(all(&payload(run)));
    let zero = RunOutcome {
        exit_code: Some(0),
        stdout: printed("done\n"),
        ..outcome(Status::Success)
    };
    assert_eq!(payload(zero).text(OutputMode::Compact), "done\n");
}

#[test]
fn a_time_limit_with_variables_kept() {
    let message = "stopped after 30 s in cell 7, line 3 (time.sleep); variables are kept";
    let run = RunOutcome {
        stdout: printed("step 1\n"),
        error: Some(failure("timeout", message, "")),
        ..outcome(Status::Timeout)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn variables_lost_then_a_fresh_session() {
    let message = "killed: memory limit 512 MiB reached; variables are lost";
    let run = RunOutcome {
        error: Some(failure("memory_limit", message, "")),
        exit_code: Some(137),
        state: State::Lost,
        ..outcome(Status::Error)
    };
    insta::assert_snapshot!(all(&payload(run)));
    let next = RunOutcome {
        note: Some("fresh session (the previous one was killed after a time limit)".to_owned()),
        stdout: printed("1\n"),
        ..outcome(Status::Success)
    };
    insta::assert_snapshot!("fresh_session", all(&payload(next)));
}

#[test]
fn cancelled() {
    let run = RunOutcome {
        error: Some(failure(
            "cancelled",
            "stopped on request; variables are kept",
            "",
        )),
        ..outcome(Status::Cancelled)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn wrong_arguments() {
    let message = "no argument \"timout\" (did you mean timeout?); arguments: code, servers, timeout, session, reset";
    insta::assert_snapshot!(all(&Payload::invalid(message.to_owned())));
}

#[test]
fn no_sandbox() {
    let message = "no container engine answers: tried podman (/run/user/1000/podman/podman.sock: connection \
                   refused).\nDetails: mcp-code-bridge doctor";
    insta::assert_snapshot!(all(&Payload::refused("E0", message.to_owned())));
}

#[test]
fn output_beyond_the_limit() {
    let stdout = Captured {
        bytes: "ab\u{e9}".as_bytes()[..3].to_vec(),
        dropped: 1_234_567,
        ..Captured::default()
    };
    let run = RunOutcome {
        stdout,
        stderr: Captured {
            dropped: 5,
            ..Captured::default()
        },
        ..outcome(Status::Success)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn a_run_that_goes_on() {
    let run = RunOutcome {
        stdout: printed("epoch 1\n"),
        note: Some("fresh session, as asked".to_owned()),
        run: Some("k3f9x2abcd".to_owned()),
        elapsed: Duration::from_millis(12_900),
        ..outcome(Status::Running)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn output_beyond_the_budget() {
    let mut text = String::new();
    for line in 0..5000 {
        let _ = writeln!(text, "line {line}");
    }
    let run = RunOutcome {
        stdout: printed(&text),
        stderr: printed("careful\n"),
        ..outcome(Status::Success)
    };
    insta::assert_snapshot!(all(&Payload::of_run(run.clone(), false, 300)));
    let lost = RunOutcome {
        state: State::Lost,
        error: Some(failure("memory_limit", "killed", "")),
        ..run.clone()
    };
    let text = Payload::of_run(lost, false, 300).text(OutputMode::Compact);
    assert!(
        text.contains(" bytes) left out ...\n") && !text.contains("last_output"),
        "{text}"
    );
    assert_eq!(Payload::of_run(run, false, 1 << 20).left_out, (0, 0));
}

#[test]
fn a_long_stderr_and_a_long_traceback_leave_room_for_the_output() {
    let run = RunOutcome {
        stdout: printed(&"out\n".repeat(10)),
        stderr: printed(&"err\n".repeat(10_000)),
        error: Some(failure("E", "m", &"frame\n".repeat(10_000))),
        ..outcome(Status::Error)
    };
    let payload = Payload::of_run(run, false, 4000);
    assert_eq!(payload.stdout, "out\n".repeat(10));
    assert_eq!(payload.left_out.0, 0);
    assert!(payload.left_out.1 > 35_000 && payload.stderr.len() < 4200);
    assert!(payload.stderr.contains("runtime.last_output.stderr.lines("));
    assert!(payload.error.expect("an error").len() < 2200);
}

fn displayed() -> Displays {
    let mut displays = Displays::default();
    displays.push("image/png", b"\x89PNG\r\n\x1a\nrest".to_vec());
    displays.push("image/svg+xml", b"<svg/>".to_vec());
    displays.push("image/png", b"no picture".to_vec());
    displays.push("text/html", vec![b'x'; 9000]);
    displays
}

#[test]
fn pictures_documents_and_files() {
    let file = |path: &str, size| OutFile {
        path: path.to_owned(),
        size,
        is_new: true,
    };
    let run = RunOutcome {
        displays: displayed(),
        files: vec![file("a b/chart.png", 2048), file("\u{1b}.csv", 3)],
        ..outcome(Status::Success)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn calls_are_told_where_they_are_news() {
    let run = |status, calls| RunOutcome {
        stdout: printed("1\n"),
        calls,
        ..outcome(status)
    };
    let text = |run: RunOutcome| payload(run).text(OutputMode::Compact);
    let fine = calls(&[("github.create_issue", 2, 0), ("time.now", 1, 0)], &[]);
    assert_eq!(text(run(Status::Success, fine.clone())), "1\n");
    assert_eq!(
        payload(run(Status::Success, fine)).structured()["toolCalls"],
        "3 done (github.create_issue ×2, time.now)"
    );
    let failed = calls(&[("github.create_issue", 2, 1), ("time.now", 1, 0)], &[]);
    assert_eq!(
        text(run(Status::Success, failed)),
        "1\ntool calls: 3 done (github.create_issue ×2 (1 failed), time.now)"
    );
    let cut_off = RunOutcome {
        error: Some(failure("timeout", "stopped after 30 s", "")),
        ..run(
            Status::Timeout,
            calls(&[("a.b", 1, 0)], &["github.search_issues"]),
        )
    };
    assert_eq!(
        text(cut_off),
        "status: timeout\nstopped after 30 s\nstdout:\n1\ntool calls: 1 done (a.b), 1 cancelled (github.search_issues)"
    );
    assert!(!text(run(Status::Error, Summary::default())).contains("tool calls"));
}

#[test]
fn bytes_and_controls_are_made_visible() {
    let stdout = Captured {
        bytes: b"\x1b[31mred\xff\r\nplain \xf0\x9f\xa6\x80\n".to_vec(),
        ..Captured::default()
    };
    let run = RunOutcome {
        stdout,
        ..outcome(Status::Success)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn a_named_session_is_mentioned_in_the_structured_content() {
    let named = Payload::of_run(outcome(Status::Success), true, 32_000);
    assert_eq!(named.structured()["session"], "main");
}

#[test]
fn the_name_of_a_file_read_as_a_line_of_the_answer() {
    let file = File {
        name: "x\nstatus: error\r".to_owned(),
        uri: "resource://x".to_owned(),
        mime: "text/plain",
        size: 1,
    };
    let payload = Payload {
        status: "success",
        files: vec![file],
        ..Payload::default()
    };
    assert_eq!(
        payload.text(OutputMode::Compact),
        "files in out: x\\nstatus: error\\r (1 B)"
    );
}
