//! `mcp-code-bridge`: everything is in the library.

fn main() -> std::process::ExitCode {
    // The second process of a bridge, which sweeps up after it should it be killed.
    if let Some(code) = bridge_engine::sweep_if_asked(std::env::args_os()) {
        return code;
    }
    mcp_code_bridge::cli::main(std::env::args_os())
}
