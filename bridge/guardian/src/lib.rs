//! The guardian: one helper process per bridge that outlives it by seconds and cleans up what a
//! killed bridge cannot.
//!
//! Owns the helper process, the pipe to it and the lines that are written to that pipe. A bridge
//! holds a [`Guardian`], which starts the process when there is first something to guard; the
//! process itself is [`run`]. The kernel closes the pipe however the bridge dies, and then the
//! guardian ends the process groups of servers that are still on its list and has the bridge's
//! containers removed, unless the bridge had said that they are in order.
//!
//! Knows nothing of engines, MCP or settings: a container owner is a line of text to it, which
//! [`run`] hands to whoever knows the engine that wrote it. It never touches a container or a group
//! that it was not told of.

mod handle;
mod process;
mod protocol;

pub use handle::Guardian;
pub use process::run;

/// The hidden subcommand of the bridge that calls [`run`].
pub const SUBCOMMAND: &str = "guardian";
