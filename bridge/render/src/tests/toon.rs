//! The TOON mode: what it says is what the structured content says, and nothing else.

use super::*;

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
    let mut expected = payload.structured();
    expected["stdout"] = "key: value\n- item\n\t\"quoted\" \\ back\\x1b\\x00slash, true\n".into();
    assert_eq!(read, expected);
}

#[test]
fn marks_that_turn_text_around_were_hidden_in_toon() {
    let run = RunOutcome {
        stdout: printed("a\u{202e}b\u{2028}c\u{9b}d\u{1b}[31m\rend\r\n"),
        ..outcome(Status::Success)
    };
    let payload = payload(run);
    let text = payload.text(OutputMode::Toon);
    let shown = payload.text(OutputMode::Compact);
    assert_eq!(shown, "a\\u202eb\\u2028c\\x9bd\\x1b[31m\\rend\r\n");
    assert!(
        text.contains(r#"stdout: "a\\u202eb\\u2028c\\x9bd\\x1b[31m\\rend\r\n""#),
        "{text}"
    );
}
