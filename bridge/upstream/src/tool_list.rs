//! The tools that a server offers.

use std::collections::{BTreeMap, HashSet};

use bridge_tools::Tool;

/// The tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolList {
    /// The good tools, in the server's order, each name once.
    pub tools: Vec<Tool>,
    /// The bad tools by name (or place in the list), and what is wrong with each.
    pub skipped: BTreeMap<String, String>,
    /// Why this is not the whole list, where it is not.
    pub incomplete: Option<String>,
    /// Tools of earlier lists that the server no longer offers.
    pub gone: HashSet<String>,
}

impl ToolList {
    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}
