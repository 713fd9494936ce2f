//! The ground floor: small things that every other crate may use, each of which stands nowhere else.
//!
//! Entry points: [`fs`] (files written completely or not at all, bounded reads), [`error::chain`], [`human`] (sizes and
//! durations for people), [`similar`] ("did you mean"), [`random::word`], [`media`] (what bytes are), [`json::size_of`],
//! and [`Mutex`].
//!
//! This crate knows nothing of MCP, engines, guests or settings.

mod envelope;
pub mod error;
pub mod fs;
pub mod host;
pub mod human;
pub mod json;
pub mod lines;
pub mod media;
mod mutex;
pub mod programs;
pub mod random;
pub mod similar;

pub use mutex::Mutex;
