//! The MCP servers that the clients on this machine have configured.

mod definition;

pub use definition::{Definition, Secret, ServerName, Source, Transport};
