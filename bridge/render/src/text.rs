//! The text of an answer, in the mode that the settings choose.

use super::rendered::Rendered;
use super::{compact, toon};
use bridge_settings::OutputMode;

impl Rendered<'_> {
    /// The text of the answer.
    pub fn text(&self, mode: OutputMode) -> String {
        match mode {
            OutputMode::Compact => compact::write(self),
            OutputMode::Toon => toon::write(self),
        }
    }
}
