//! The bridge as a client, an engine and an attacker see it. `each_engine!` makes one test per
//! engine of each function.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod answers;
mod archive;
mod asking;
mod cli;
mod discovery;
mod failure;
mod figures;
mod http;
mod image;
mod image_build;
mod leaks;
mod long_runs;
mod output;
mod real_servers;
mod sandbox;
mod servers;
mod session;
mod state;
mod surface;
mod values;
mod world;
