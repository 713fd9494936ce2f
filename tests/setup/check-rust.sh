#!/usr/bin/env bash
# `check-rust.sh fmt|clippy|doc`: is everything formatted, do clippy and rustdoc find nothing to
# warn about?
#
# rustfmt and clippy are components of their own, which a machine may lack: then that check is left
# out, and said, since what the programs do can still be tested.
set -euo pipefail
cd "$(dirname "$0")/../.."

have() { # COMPONENT
  cargo "$1" --version >/dev/null 2>&1 && return
  tests/setup/left-out.sh "cargo $1" "rustup component add rustfmt clippy"
  return 1
}

case $1 in
  fmt) ! have fmt || cargo fmt --all --check ;;
  clippy) ! have clippy || cargo clippy --workspace --all-targets -- -D warnings ;;
  # Links inside a crate have to lead somewhere; what is private is documented for whoever reads the
  # code. With `--examples` (there are none) cargo takes the features that the tests have, and so
  # what clippy has compiled.
  doc) RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --lib --examples ;;
  *) echo "check-rust.sh: unknown check \"$1\": use fmt, clippy or doc" >&2; exit 2 ;;
esac
