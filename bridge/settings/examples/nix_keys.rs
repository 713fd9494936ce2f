//! Prints the table of settings for the Nix modules: `make reference` writes it to `src/keys.json`.

use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    io::stdout().write_all(bridge_settings::nix_keys()?.as_bytes())
}
