//! The calls of one run: how many there were, which are under way, and how to stop them.

use std::collections::HashMap;
use std::fmt;

use tokio_util::sync::CancellationToken;

/// Names shown of calls that were cut off.
const SHOWN: usize = 5;

/// The table.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pending: HashMap<u64, Call>,
    /// Of the arguments of what is pending.
    bytes: usize,
    /// Tool calls so far, refused ones included.
    pub(super) made: u64,
    done: u64,
    /// No more are taken: the run has ended.
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

    /// It is a call of this tool and waits for its turn.
    pub(super) fn set_tool(&mut self, call: u64, tool: String) {
        if let Some(call) = self.pending.get_mut(&call) {
            call.tool = Some(tool);
        }
    }

    /// It goes to its server now.
    pub(super) fn set_started(&mut self, call: u64) {
        if let Some(call) = self.pending.get_mut(&call) {
            call.started = true;
        }
    }

    /// It has its answer.
    pub(super) fn finish(&mut self, call: u64) {
        let Some(call) = self.pending.remove(&call) else {
            return;
        };
        self.bytes -= call.bytes;
        if call.tool.is_some() && call.started {
            self.done += 1;
        }
    }

    pub(super) fn cancel(&self, call: u64) {
        if let Some(call) = self.pending.get(&call) {
            call.cancel.cancel();
        }
    }

    /// Cancels what is left and says what became of all calls.
    pub(super) fn close(&mut self) -> Summary {
        self.closed = true;
        self.bytes = 0;
        let mut summary = Summary {
            done: self.done,
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

/// What became of the tool calls of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Answered, one way or the other.
    pub done: u64,
    /// Under way when the run ended, by server and tool; their effects are unknown.
    pub cancelled: Vec<String>,
    /// Waiting for their turn; they never reached a server.
    pub not_started: u64,
}

impl Summary {
    /// There was no tool call at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Summary {
    /// `tool calls: 2 done, 1 cancelled (github.search_issues), 4 not started`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.done > 0 {
            parts.push(format!("{} done", self.done));
        }
        if !self.cancelled.is_empty() {
            let mut shown: Vec<&str> = self
                .cancelled
                .iter()
                .map(String::as_str)
                .take(SHOWN)
                .collect();
            if self.cancelled.len() > SHOWN {
                shown.push("...");
            }
            parts.push(format!(
                "{} cancelled ({})",
                self.cancelled.len(),
                shown.join(", ")
            ));
        }
        if self.not_started > 0 {
            parts.push(format!("{} not started", self.not_started));
        }
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        write!(formatter, "tool calls: {}", parts.join(", "))
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
        calls.finish(0);
        calls.finish(0);
        calls.set_started(2);
        let summary = calls.close();
        assert_eq!(
            summary.to_string(),
            "tool calls: 1 done, 1 cancelled (github.t2), 2 not started"
        );
        assert!(
            tokens[1..].iter().all(CancellationToken::is_cancelled) && !tokens[0].is_cancelled()
        );
        assert_eq!(Summary::default().to_string(), "tool calls: none");
        let many = Summary {
            cancelled: vec!["s.t".to_owned(); 7],
            ..Summary::default()
        };
        assert_eq!(
            many.to_string(),
            "tool calls: 7 cancelled (s.t, s.t, s.t, s.t, s.t, ...)"
        );
    }
}
