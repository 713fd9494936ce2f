#!/usr/bin/env bash
# Prints the toolchain that rustup is to use instead of the one in rust-toolchain.toml: this
# machine's default, where `stable` is not installed (rustup would download it, or refuse to work).
# Prints nothing where `stable` is installed, or Rust does not come from rustup.
set -euo pipefail
command -v rustup >/dev/null || exit 0
[ -z "${RUSTUP_TOOLCHAIN:-}" ] || { echo "$RUSTUP_TOOLCHAIN"; exit; }
cd /
installed=$(rustup toolchain list 2>/dev/null)
grep -q '^stable' <<<"$installed" && exit
default=$(sed -n 's/^\([^ ]*\) .*default.*/\1/p' <<<"$installed")
[ -z "$default" ] || echo "setup: the toolchain stable is not installed; using $default" >&2
echo "$default"
