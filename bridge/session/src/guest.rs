//! The guest of a session: how one is started, what it is given, what each of its frames comes to,
//! and how it ends.

pub(crate) mod changes;
pub(crate) mod death;
pub(crate) mod events;
pub(crate) mod execution;
pub(crate) mod requests;
pub(crate) mod running;
pub(crate) mod servers;
pub(crate) mod start;
