//! The program `mcp-code-bridge`; all of it is in the library of this package.

fn main() -> std::process::ExitCode {
    mcp_code_bridge::cli::main(std::env::args_os())
}
