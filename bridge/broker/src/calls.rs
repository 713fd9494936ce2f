//! The calls of one run: how many there were, which are under way, and how to stop them.

use std::collections::HashMap;
use std::fmt;

use tokio_util::sync::CancellationToken;

/// Most tools that a summary names.
const SHOWN: usize = 5;
/// Most tools that are counted by name.
const NAMED: usize = 100;

/// The requests of one run that are under way, and counts of those that are not.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pending: HashMap<u64, Call>,
    /// Bytes of the arguments of pending requests.
    bytes: usize,
    /// Tool calls so far, refused ones included.
    pub(super) made: u64,
    done: u64,
    tools: Vec<Tally>,
    /// Changes so far of what is kept.
    pub(super) writes: u64,
    /// The run has ended, so that no more requests are taken.
    pub(super) closed: bool,
}

#[derive(Debug)]
struct Call {
    bytes: usize,
    cancel: CancellationToken,
    /// `github.create_issue`; none for requests that reach no server.
    tool: Option<String>,
    started: bool,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn contains(&self, call: u64) -> bool {
        self.pending.contains_key(&call)
    }

    pub(super) fn add(&mut self, call: u64, bytes: usize, cancel: CancellationToken) {
        self.bytes += bytes;
        self.pending.insert(
            call,
            Call {
                bytes,
                cancel,
                tool: None,
                started: false,
            },
        );
    }

    /// The request is a call of this tool, and waits for its turn.
    pub(super) fn set_tool(&mut self, call: u64, tool: String) {
        if let Some(call) = self.pending.get_mut(&call) {
            // A server names its tools as it likes; the summary is one line.
            call.tool = Some(if tool.contains(char::is_control) {
                tool.escape_debug().to_string()
            } else {
                tool
            });
        }
    }

    /// The call goes to its server now.
    pub(super) fn set_started(&mut self, call: u64) {
        if let Some(call) = self.pending.get_mut(&call) {
            call.started = true;
        }
    }

    /// The call has its answer, which may be that it `failed`.
    pub(super) fn finish(&mut self, call: u64, failed: bool) {
        let Some(call) = self.pending.remove(&call) else {
            return;
        };
        self.bytes -= call.bytes;
        let Some(tool) = call.tool.filter(|_| call.started) else {
            return;
        };
        self.done += 1;
        tally(&mut self.tools, tool, failed);
    }

    pub(super) fn cancel(&self, call: u64) {
        if let Some(call) = self.pending.get(&call) {
            call.cancel.cancel();
        }
    }

    /// Cancels calls that are left, and says what became of all of them.
    pub(super) fn close(&mut self) -> Summary {
        self.closed = true;
        self.bytes = 0;
        let mut summary = Summary {
            done: self.done,
            tools: self.tools.clone(),
            ..Summary::default()
        };
        let mut left: Vec<(u64, Call)> = self.pending.drain().collect();
        left.sort_unstable_by_key(|(number, _)| *number);
        for (_, call) in left {
            call.cancel.cancel();
            match call.tool {
                Some(tool) if call.started => summary.cancelled.push(tool),
                Some(_) => summary.not_started += 1,
                None => {}
            }
        }
        summary
    }
}

/// The calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Server and tool, such as `github.create_issue`.
    pub tool: String,
    /// How many calls were answered.
    pub done: u64,
    /// How many of them failed.
    pub failed: u64,
}

/// Counts a call of this tool; those of tools beyond the first `NAMED` together.
fn tally(tallies: &mut Vec<Tally>, tool: String, failed: bool) {
    let known = tallies.iter().position(|tally| tally.tool == tool);
    let at = known.unwrap_or(tallies.len()).min(NAMED);
    if at == tallies.len() {
        let tool = if at < NAMED {
            tool
        } else {
            "others".to_owned()
        };
        tallies.push(Tally {
            tool,
            done: 0,
            failed: 0,
        });
    }
    let tally = &mut tallies[at];
    tally.done += 1;
    tally.failed += u64::from(failed);
}

/// What became of the tool calls of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of calls that were answered, one way or the other.
    pub done: u64,
    /// The answered calls by tool, in the order of their first answers.
    pub tools: Vec<Tally>,
    /// Calls under way when the run ended, by server and tool; their effects are unknown.
    pub cancelled: Vec<String>,
    /// Number of calls that waited for their turn and never reached a server.
    pub not_started: u64,
}

impl Summary {
    /// Whether the run made no tool call at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How many answers were errors.
    pub fn failed(&self) -> u64 {
        self.tools.iter().map(|tally| tally.failed).sum()
    }

    /// Whether the end of the run cut calls off.
    pub fn is_cut_off(&self) -> bool {
        !self.cancelled.is_empty() || self.not_started > 0
    }

    /// Calls that were cut off, by tool.
    fn cut_off(&self) -> Vec<Tally> {
        let mut tallies = Vec::new();
        for tool in &self.cancelled {
            tally(&mut tallies, tool.clone(), false);
        }
        tallies
    }
}

/// `github.create_issue ×2 (1 failed), time.now`
fn by_tool(tallies: &[Tally]) -> String {
    let mut shown: Vec<String> = Vec::new();
    for Tally { tool, done, failed } in tallies.iter().take(SHOWN) {
        let times = if *done > 1 {
            format!(" ×{done}")
        } else {
            String::new()
        };
        let failed = match (failed, done) {
            (0, _) => String::new(),
            (failed, done) if failed == done => " (failed)".to_owned(),
            (failed, _) => format!(" ({failed} failed)"),
        };
        shown.push(format!("{tool}{times}{failed}"));
    }
    if tallies.len() > SHOWN {
        shown.push("...".to_owned());
    }
    shown.join(", ")
}

impl fmt::Display for Summary {
    /// `2 done (github.create_issue ×2), 1 cancelled (github.search_issues), 4 not started`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.done > 0 {
            parts.push(format!("{} done ({})", self.done, by_tool(&self.tools)));
        }
        if !self.cancelled.is_empty() {
            let shown = by_tool(&self.cut_off());
            parts.push(format!("{} cancelled ({shown})", self.cancelled.len()));
        }
        if self.not_started > 0 {
            parts.push(format!("{} not started", self.not_started));
        }
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        formatter.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_tells_done_cancelled_and_never_started_apart() {
        let mut calls = Calls::default();
        let tokens: Vec<CancellationToken> = (0..5).map(|_| CancellationToken::new()).collect();
        for (call, token) in (0_u64..).zip(&tokens) {
            calls.add(call, 10, token.clone());
            if call < 4 {
                calls.set_tool(call, format!("github.t{call}"));
            }
        }
        calls.set_started(0);
        calls.finish(0, false);
        calls.finish(0, false);
        calls.set_started(2);
        let summary = calls.close();
        assert_eq!(
            summary.to_string(),
            "1 done (github.t0), 1 cancelled (github.t2), 2 not started"
        );
        assert!(
            tokens[1..].iter().all(CancellationToken::is_cancelled) && !tokens[0].is_cancelled()
        );
        assert_eq!(Summary::default().to_string(), "none");
        let many = Summary {
            cancelled: ["s.t", "s.u", "s.t"].map(str::to_owned).to_vec(),
            ..Summary::default()
        };
        assert_eq!(many.to_string(), "3 cancelled (s.t ×2, s.u)");
    }

    #[test]
    fn tool_names_cannot_add_lines_to_the_summary() {
        let mut calls = Calls::default();
        calls.add(1, 1, CancellationToken::new());
        calls.set_tool(1, "s.a\nstatus: success".to_owned());
        calls.set_started(1);
        assert_eq!(
            calls.close().to_string(),
            "1 cancelled (s.a\\nstatus: success)"
        );
    }

    #[test]
    fn answers_are_counted_by_tool_in_bounded_memory() {
        let mut calls = Calls::default();
        let mut number = 0;
        let mut finish = |calls: &mut Calls, tool: String, failed| {
            number += 1;
            calls.add(number, 1, CancellationToken::new());
            calls.set_tool(number, tool);
            calls.set_started(number);
            calls.finish(number, failed);
        };
        for (tool, failed) in [
            ("g.a", false),
            ("t.now", false),
            ("g.a", true),
            ("x.y", true),
        ] {
            finish(&mut calls, tool.to_owned(), failed);
        }
        for tool in 0..300 {
            finish(&mut calls, format!("m.t{tool}"), false);
        }
        let summary = calls.close();
        assert_eq!(
            summary.to_string(),
            "304 done (g.a ×2 (1 failed), t.now, x.y (failed), m.t0, m.t1, ...)"
        );
        assert_eq!((summary.failed(), summary.tools.len()), (2, NAMED + 1));
        assert_eq!(summary.tools[NAMED].tool, "others");
        assert_eq!(
            summary.tools.iter().map(|tally| tally.done).sum::<u64>(),
            304
        );
    }
}
