//! `mcp-code-bridge`: everything is in the library.

fn main() -> std::process::ExitCode {
    mcp_code_bridge::cli::main(std::env::args_os())
}
