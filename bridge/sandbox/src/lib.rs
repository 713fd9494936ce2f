//! From an engine and an image to a checked guest: which image is expected and whether the engine has it, and a hardened
//! container made from it, compared with what was asked for, and started.

pub mod image;
mod launch;

pub use launch::{Launcher, explain_exit};
