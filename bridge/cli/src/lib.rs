//! The program `mcp-code-bridge`: its command line, and the checks of `doctor`.
//!
//! This crate owns the subcommands, their exit codes and everything that reaches the terminal, and
//! it alone wires the other crates together: settings, catalog, store, engine, sessions and server.
//! It must never hold a rule of its own about sessions, servers or engines: a subcommand parses its
//! arguments, calls one other crate and prints what comes back. No other crate prints or reads
//! arguments.
//!
//! Entry points: [`cli::main`] runs the program, [`cli::command`] describes the command line for
//! completions and manual pages, and [`doctor::examine`] makes the checks.

pub mod cli;
pub mod doctor;
mod report;
