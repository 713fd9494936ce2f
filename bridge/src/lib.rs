//! mcp-code-bridge offers an MCP client one tool, `run_python`, and runs the code in a verified, persistent, hardened
//! container.
//!
//! Data flows one way: `server -> session -> guest -> ...`; a module uses only those below it, and [`settings`].
//! ARCHITECTURE.md has the map.

pub mod broker;
pub mod catalog;
pub mod cli;
pub mod doctor;
pub mod engine;
pub mod guest;
pub mod image;
mod json;
pub mod media;
mod random;
pub mod render;
pub mod server;
pub mod session;
pub mod settings;
pub mod store;
pub mod upstream;
