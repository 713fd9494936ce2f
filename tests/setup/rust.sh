#!/usr/bin/env bash
# Looks for Rust, and says how to get it. Downloads nothing; rustfmt and clippy are looked for where
# they are used (check-rust.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v cargo >/dev/null; then
  cat >&2 <<'TEXT'
setup: cargo was not found: Rust 1.89 or newer is needed, with rustfmt and clippy. Either
    rustup toolchain install stable --component rustfmt,clippy      (rustup: see rust-lang.org, "Install")
or, where the distribution's Rust is new enough,
    sudo apt-get install cargo rustfmt rust-clippy
TEXT
  exit 1
fi
version=$(rustc --version | sed 's/^rustc \([0-9]*\.[0-9]*\).*/\1/')
if [ "$(printf '1.89\n%s\n' "$version" | sort -V | head -n 1)" != 1.89 ]; then
  echo "setup: rustc $version is too old; 1.89 or newer is needed: rustup update stable" >&2
  exit 1
fi
