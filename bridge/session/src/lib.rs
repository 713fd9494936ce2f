//! Python sessions: one actor each, with its queue, deadlines, interrupt, restart and honest state.
//!
//! **Owns** which sessions there are, the runs and their results, the guest of each session, and
//! what is synchronised with it.
//! **Must never know** how a container is made (the [`Launch`] port does), how a frame is spelled
//! (`bridge-wire`), which words an answer has (`bridge-render` puts a [`RunOutcome`] into words),
//! or what MCP is.
//!
//! Enter through [`Sessions::start`], which begins a [`Run`]: it can be waited for, read, left
//! running and cancelled. `actor` is the task of one session, `guest` all that is done with its
//! guest, `run` the life of a run and how it can end ([`Ending`]), `sync` what outlives the
//! session. What a guest does is never trusted: it can end its own run and itself, and nothing
//! else.

mod actor;
mod api;
mod guest;
mod name;
mod registry;
mod run;
mod shared;
mod sync;
#[cfg(any(test, feature = "testing"))]
mod testing;

pub use api::{
    CODE_LIMIT, Client, Error, Guest, KEPT_FOR, Launch, LaunchError, Progress, RunRequest,
};
pub use name::is_session_name;
pub use registry::Sessions;
pub use run::display::{Content, Display, Displays};
pub use run::ending::{
    Breach, Death, Ending, Exception, Obstacle, Reaction, Reason, State, Status, Stop,
};
pub use run::exit_status::ExitStatus;
pub use run::notes::{Loss, NotKept, Note, ProjectsNote};
pub use run::outcome::{Captured, OutFile, RunEnd, RunIdentity, RunOutcome, RunOutput};
pub use run::{CancelOnDrop, Run};
pub use sync::out_files::{FILE_LIMIT, FileError};

#[cfg(test)]
extern crate self as bridge_session;

#[cfg(test)]
mod tests;
