//! What an answer has besides output: pictures, documents, files and tool calls.

use super::*;
use bridge_broker::Tally;
use bridge_session::{Displays, OutFile};

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

fn displayed() -> Displays {
    let mut displays = Displays::default();
    displays.push("image/png", b"\x89PNG\r\n\x1a\nrest".to_vec());
    displays.push("image/svg+xml", b"<svg/>".to_vec());
    displays.push("image/png", b"no picture".to_vec());
    displays.push("text/html", vec![b'x'; 9000]);
    displays
}

fn file(path: &str, size: u64) -> OutFile {
    OutFile {
        path: path.to_owned(),
        size,
        is_new: true,
    }
}

#[test]
fn pictures_documents_and_files() {
    let mut run = outcome(success());
    run.output.displays = displayed();
    run.output.files = vec![file("a b/chart.png", 2048), file("\u{1b}.csv", 3)];
    insta::assert_snapshot!(all(&rendered(&run)));
}

#[test]
fn calls_are_told_where_they_are_news() {
    let run = |ending, calls| RunOutcome {
        calls,
        ..with_stdout(ending, "1\n")
    };
    let fine = calls(&[("github.create_issue", 2, 0), ("time.now", 1, 0)], &[]);
    assert_eq!(text(&run(success(), fine.clone())), "1\n");
    assert_eq!(
        rendered(&run(success(), fine)).structured()["toolCalls"],
        "3 done (github.create_issue ×2, time.now)"
    );
    let failed = calls(&[("github.create_issue", 2, 1), ("time.now", 1, 0)], &[]);
    assert_eq!(
        text(&run(success(), failed)),
        "1\ntool calls: 3 done (github.create_issue ×2 (1 failed), time.now)"
    );
    let cut_off = run(
        timeout(),
        calls(&[("a.b", 1, 0)], &["github.search_issues"]),
    );
    assert_eq!(
        text(&cut_off),
        "status: timeout\nstopped after 30 s in cell 7, line 3 (time.sleep); variables are kept\nstdout:\n1\ntool calls: 1 done (a.b), 1 cancelled (github.search_issues)"
    );
    assert!(!text(&run(Ending::Failed, Summary::default())).contains("tool calls"));
}

#[test]
fn file_names_cannot_begin_a_line_of_the_answer() {
    let mut run = outcome(success());
    run.output.files = vec![file("x\nstatus: error\r", 1)];
    assert_eq!(text(&run), "files in out: x\\nstatus: error\\r (1 B)");
}
