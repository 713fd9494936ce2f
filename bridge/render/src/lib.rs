//! What the model and the person read: the answer to one call, as structured content and as text in
//! two modes.
//!
//! **Owns** every word about how a run ended (`words`), what of a long output is shown (`excerpt`),
//! how bytes and control characters look (`visible`), the two text modes (`compact`, `toon`), and
//! the addresses of files (`resource`).
//! **Must never know** how an outcome came about, or what MCP is: a [`Rendered`] borrows a
//! `RunOutcome` and changes nothing.
//!
//! Enter through [`Rendered::of_run`], or [`Rendered::invalid`] and [`Rendered::refused`] where
//! nothing was run; then [`Rendered::text`] and [`Rendered::structured`]. The first line carries
//! the news; nothing that can be left out is said.

mod compact;
mod excerpt;
mod rendered;
mod resource;
mod structured;
mod text;
mod toon;
mod visible;
mod words;

pub use rendered::{File, Rendered, Shown};
pub use resource::{FILE_TEMPLATE, display_uri, file_uri, parse_file_uri};
pub use visible::visible;

#[cfg(test)]
mod tests;
