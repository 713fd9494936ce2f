//! `guest-image`: lock, build, verify and describe the guest image.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run()
}
