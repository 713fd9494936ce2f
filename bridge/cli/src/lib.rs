//! The program: arguments into settings, one thin file per subcommand, and `doctor`.

pub mod cli;
pub mod doctor;
mod report;
