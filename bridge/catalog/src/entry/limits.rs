//! The limits in an entry: time, in the units of each client, and tools.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::dialect::Timeout;
use super::super::document::{Node, Value};
use super::super::problem::Reason;
use super::{Entry, wrong_type};

pub(super) fn tool_names(node: &Node, key: &str, entry: &mut Entry) -> Option<BTreeSet<String>> {
    if let Value::List(names) = &node.value {
        // Gemini allows `tool(arguments)`; the whole tool is offered.
        let plain = |name: &Node| {
            name.text()
                .map(|text| text.split('(').next().unwrap_or_default().trim().to_owned())
        };
        return Some(names.iter().filter_map(plain).collect());
    }
    // A mistake in a list that limits tools must not offer all of them.
    entry.error(
        node.at,
        wrong_type(&format!("{key:?}"), "a list of names", node),
    );
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    Guess,
}

/// `timeout`: a number for one limit, or an object with both.
pub(super) fn timeouts(node: &Node, meaning: Timeout, entry: &mut Entry) {
    if let Some(fields) = node.fields() {
        for field in fields {
            match field.key.as_str() {
                "startup" | "start" | "connect" | "init" => {
                    entry.start_timeout = time(&field.node, "timeout", Unit::Milliseconds, entry);
                }
                "execution" | "request" | "call" | "tool" => {
                    entry.call_timeout = time(&field.node, "timeout", Unit::Milliseconds, entry);
                }
                _ => {}
            }
        }
        return;
    }
    match meaning {
        Timeout::StartMilliseconds => {
            entry.start_timeout = time(node, "timeout", Unit::Milliseconds, entry);
        }
        Timeout::Milliseconds => {
            entry.call_timeout = time(node, "timeout", Unit::Milliseconds, entry);
        }
        Timeout::Seconds => entry.call_timeout = time(node, "timeout", Unit::Seconds, entry),
        Timeout::Guess => entry.call_timeout = time(node, "timeout", Unit::Guess, entry),
    }
}

/// A time limit; an unusable one is reported and left out.
pub(super) fn time(node: &Node, key: &str, unit: Unit, entry: &mut Entry) -> Option<Duration> {
    const LONGEST: f64 = 7.0 * 24.0 * 3600.0;
    let text = match &node.value {
        Value::Number(text) | Value::Text(text) => text.trim(),
        _ => {
            entry.warn(node.at, wrong_type(&format!("{key:?}"), "a number", node));
            return None;
        }
    };
    let (number, factor) = match text {
        _ if text.ends_with("ms") => (&text[..text.len() - 2], Some(0.001)),
        _ if text.ends_with('s') => (&text[..text.len() - 1], Some(1.0)),
        _ if text.ends_with('m') => (&text[..text.len() - 1], Some(60.0)),
        _ => (text, None),
    };
    let number: f64 = number.trim().replace('_', "").parse().unwrap_or(f64::NAN);
    let factor = factor.unwrap_or(match unit {
        Unit::Seconds => 1.0,
        Unit::Guess if number < 1000.0 => 1.0,
        Unit::Milliseconds | Unit::Guess => 0.001,
    });
    let seconds = number * factor;
    if seconds.is_finite() && seconds > 0.0 {
        return Duration::try_from_secs_f64(seconds.min(LONGEST)).ok();
    }
    entry.warn(node.at, Reason::BadTimeout(format!("{key:?}")));
    None
}
