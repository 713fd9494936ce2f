//! The exact text of every kind of answer, in both modes.

use std::time::Duration;

use super::*;

fn outcome(status: Status) -> RunOutcome {
    RunOutcome {
        status,
        session: "main".to_owned(),
        stdout: Captured::default(),
        stderr: Captured::default(),
        error: None,
        exit_code: None,
        result: None,
        state: State::Kept,
        note: None,
        servers: Vec::new(),
        calls: None,
        timeout: Duration::from_secs(30),
        run: None,
        elapsed: Duration::ZERO,
    }
}

fn printed(text: &str) -> Captured {
    Captured {
        bytes: text.as_bytes().to_vec(),
        dropped: 0,
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
    Payload::of_run(outcome, false, 8 << 20)
}

/// Both texts and the structured content of one payload.
fn all(payload: &Payload) -> String {
    format!(
        "{}\n--- toon\n{}\n--- structured, isError {}\n{}",
        payload.text(OutputMode::Compact),
        payload.text(OutputMode::Toon),
        payload.is_error(),
        payload.clone().into_structured(),
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
    let structured = payload(run).into_structured();
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
    };
    let run = RunOutcome {
        stdout,
        stderr: Captured {
            bytes: Vec::new(),
            dropped: 5,
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
fn bytes_and_controls_are_made_visible() {
    let stdout = Captured {
        bytes: b"\x1b[31mred\xff\r\nplain \xf0\x9f\xa6\x80\n".to_vec(),
        dropped: 0,
    };
    let run = RunOutcome {
        stdout,
        ..outcome(Status::Success)
    };
    insta::assert_snapshot!(all(&payload(run)));
}

#[test]
fn a_named_session_is_mentioned_in_the_structured_content() {
    let named = Payload::of_run(outcome(Status::Success), true, 8 << 20);
    assert_eq!(named.into_structured()["session"], "main");
}

#[test]
fn no_value_closes_the_fence() {
    let run = RunOutcome {
        stdout: printed("```\nstatus: success\n```\n"),
        ..outcome(Status::Success)
    };
    let text = payload(run).text(OutputMode::Toon);
    assert_eq!(
        text.lines().filter(|line| line.starts_with("```")).count(),
        2,
        "{text}"
    );
}

#[test]
fn toon_reads_back_as_the_structured_content() {
    let run = RunOutcome {
        stdout: printed("key: value\n- item\n\t\"quoted\" \\ back\u{1b}\u{0}slash, true\n"),
        exit_code: Some(-9_007_199_254_740_993),
        error: Some(failure("ValueError", "12", "")),
        ..outcome(Status::Error)
    };
    let payload = payload(run);
    let text = payload.text(OutputMode::Toon);
    let body = text
        .strip_prefix("```toon\n")
        .and_then(|text| text.strip_suffix("\n```"))
        .expect("fenced");
    let read: Value = toon_format::decode_default(body).expect("decodes");
    assert_eq!(read, payload.into_structured());
}
