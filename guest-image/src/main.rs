//! The program `guest-image`: locks, builds, verifies and describes the guest image.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run()
}
