//! The results as a table for people or JSON for programs, each figure with its lower bound and
//! target.

use std::fmt::Write;

use serde_json::{Value, json};

/// The target of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// The figure has no target.
    None,
    /// At most this value.
    Most(f64),
    /// Less than this value.
    Less(f64),
    /// At least this value.
    Least(f64),
    /// At most this many times the lower bound.
    Times(f64),
    /// At most this much above the lower bound.
    Over(f64),
}

struct Row {
    what: String,
    unit: &'static str,
    value: f64,
    floor: Option<f64>,
    target: Target,
}

/// All figures of a run.
#[derive(Default)]
pub(crate) struct Report(Vec<Row>);

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.floor.map(|floor| self.value / floor)
    }

    fn met(&self) -> Option<bool> {
        match self.target {
            Target::None => None,
            Target::Most(most) => Some(self.value <= most),
            Target::Less(limit) => Some(self.value < limit),
            Target::Least(least) => Some(self.value >= least),
            Target::Times(times) => self.ratio().map(|ratio| ratio <= times),
            Target::Over(over) => self.floor.map(|floor| self.value - floor <= over),
        }
    }

    fn wanted(&self) -> String {
        match self.target {
            Target::None => String::new(),
            Target::Most(most) => format!("<= {most} {}", self.unit),
            Target::Less(limit) => format!("< {limit} {}", self.unit),
            Target::Least(least) => format!(">= {least}"),
            Target::Times(times) => format!("<= {times} x"),
            Target::Over(over) => format!("<= +{over} {}", self.unit),
        }
    }
}

impl Report {
    pub(crate) fn add(
        &mut self,
        what: &str,
        unit: &'static str,
        value: f64,
        floor: Option<f64>,
        target: Target,
    ) {
        self.0.push(Row {
            what: what.to_owned(),
            unit,
            value,
            floor,
            target,
        });
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<66} {:>12} {:>12} {:>7}  {:<12}\n",
            "", "measured", "floor", "ratio", "target"
        );
        for row in &self.0 {
            let optional = |value: Option<f64>, digits: usize| {
                value
                    .map(|value| format!("{value:.digits$}"))
                    .unwrap_or_default()
            };
            let verdict = match row.met() {
                None => "",
                Some(true) => "met",
                Some(false) => "MISSED",
            };
            let _ = writeln!(
                text,
                "{:<66} {:>9.2} {:<2} {:>12} {:>7}  {:<12} {verdict}",
                row.what,
                row.value,
                row.unit,
                optional(row.floor, 2),
                optional(row.ratio(), 2),
                row.wanted(),
            );
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let rows = self.0.iter().map(|row| {
            json!({
                "what": row.what, "unit": row.unit, "value": row.value, "floor": row.floor, "ratio": row.ratio(),
                "target": row.wanted(), "met": row.met(),
            })
        });
        json!({ "rows": rows.collect::<Vec<_>>() })
    }
}
