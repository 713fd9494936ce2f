#!/usr/bin/env bash
# Checks for the Rust tools, and installs cargo-nextest where it is missing. Says what to do where Rust itself is.
set -euo pipefail
if ! command -v cargo >/dev/null; then
  cat >&2 <<'TEXT'
setup: no cargo found. Rust 1.89 or newer is needed, with rustfmt and clippy. Either
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
for tool in fmt clippy; do
  cargo "$tool" --version >/dev/null 2>&1 || { echo "setup: cargo $tool is missing: rustup component add rustfmt clippy" >&2; exit 1; }
done
if ! cargo nextest --version >/dev/null 2>&1; then
  echo "setup: building cargo-nextest (some minutes, once) ..." >&2
  cargo install --quiet --locked cargo-nextest || echo "setup: cargo-nextest could not be built; 'cargo test' is used instead" >&2
fi
