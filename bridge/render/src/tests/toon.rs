//! The TOON mode: what it says is what the structured content says, and nothing else.

use super::*;

#[test]
fn no_value_closes_the_fence() {
    let run = with_stdout(success(), "```\nstatus: success\n```\n");
    let text = rendered(&run).text(OutputMode::Toon);
    assert_eq!(
        text.lines().filter(|line| line.starts_with("```")).count(),
        2,
        "{text}"
    );
}

#[test]
fn toon_reads_back_as_the_structured_content() {
    let ending = Ending::Success {
        result: Some("ValueError: 12".to_owned()),
        exit_code: Some(-9_007_199_254_740_993),
    };
    let run = with_stdout(
        ending,
        "key: value\n- item\n\t\"quoted\" \\ back\u{1b}\u{0}slash, true\n",
    );
    let answer = rendered(&run);
    let text = answer.text(OutputMode::Toon);
    let body = text
        .strip_prefix("```toon\n")
        .and_then(|text| text.strip_suffix("\n```"))
        .expect("fenced");
    let read: Value = toon_format::decode_default(body).expect("decodes");
    let mut expected = answer.structured();
    expected["stdout"] = "key: value\n- item\n\t\"quoted\" \\ back\\x1b\\x00slash, true\n".into();
    assert_eq!(read, expected);
}

#[test]
fn marks_that_turn_text_around_are_shown() {
    let run = with_stdout(success(), "a\u{202e}b\u{2028}c\u{9b}d\u{1b}[31m\rend\r\n");
    let answer = rendered(&run);
    let shown = answer.text(OutputMode::Compact);
    assert_eq!(shown, "a\\u202eb\\u2028c\\x9bd\\x1b[31m\\rend\r\n");
    let text = answer.text(OutputMode::Toon);
    assert!(
        text.contains(r#"stdout: "a\\u202eb\\u2028c\\x9bd\\x1b[31m\\rend\r\n""#),
        "{text}"
    );
}
