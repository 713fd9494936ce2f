//! Tools of MCP servers as they are known on the host: their names in Python, their documentation, and search over
//! all of them.
//!
//! Entry points: [`ToolBook::learn`] takes the list that a server sent, [`ToolBook::search`] ranks all known tools,
//! [`ToolDoc`] is what user code reads. A list is kept by the hash of its server's definition, in memory and in the
//! cache on disk ([`ToolCache`]), so that tools are found before their server runs.
//!
//! This crate starts no server and calls no tool: it knows definitions (`bridge-catalog`), not connections.

mod book;
mod cache;
mod doc;
mod search;
mod tokens;
mod tool;

pub use book::ToolBook;
pub use cache::ToolCache;
pub use doc::{Detail, ToolDoc};
pub use search::{Findings, Hit};
pub use tool::{ServerTools, Tool};

#[cfg(test)]
mod tests;
