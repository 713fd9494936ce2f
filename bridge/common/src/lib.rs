//! The ground floor: small things that every other crate of the bridge may use.
//!
//! Knows nothing of MCP, engines, guests or settings.

pub mod error;
pub mod fs;
pub mod json;
pub mod media;
pub mod random;
pub mod suggest;
