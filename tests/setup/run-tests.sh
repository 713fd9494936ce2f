#!/usr/bin/env bash
# Runs the Rust tests (unit and integration) with nextest, or with cargo's own runner where nextest could not be installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
TEST_PYTHON=$(tests/setup/python.sh)
export TEST_PYTHON
if cargo nextest --version >/dev/null 2>&1; then
  exec cargo nextest run --workspace "$@"
fi
exec cargo test --workspace --no-fail-fast -- --test-threads 2 "$@"
