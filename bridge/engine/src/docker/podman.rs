//! Podman where it is installed and does not run: its service, which the bridge starts for itself,
//! and its virtual machine, where it needs one.

mod machine;
mod service;

pub(crate) use machine::Machine;
pub(crate) use service::Service;
