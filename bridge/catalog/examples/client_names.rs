//! Prints the clients by name for the home-manager module: `make reference` writes `src/clients.json`.

use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    io::stdout().write_all(bridge_catalog::register::clients_json().as_bytes())
}
