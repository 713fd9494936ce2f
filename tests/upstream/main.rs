//! Servers as the bridge runs them, against the stub server and its misbehaviour.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod broker;
mod calls;
mod challenges;
mod http;
mod life;
mod lists;
mod login;
mod questions;
mod requests;
mod sessions;
mod world;
