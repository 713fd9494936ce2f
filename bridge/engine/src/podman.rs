//! Podman where it is installed and does not run: its service, which the bridge starts for itself, and its virtual
//! machine, where it needs one.

mod machine;
mod service;

pub(super) use machine::Machine;
pub(super) use service::Service;
