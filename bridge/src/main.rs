//! `mcp-code-bridge`.

fn main() {}
