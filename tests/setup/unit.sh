#!/usr/bin/env bash
# What takes seconds and needs no engine: the unit tests of the crates, and of the guest's Python
# those that start few guests or none.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests/setup/packages.sh build python
tests/setup/rust.sh
PATH=$(tests/setup/tools.sh):$PATH
# The whole workspace with a filter: single packages have other features, and would be built anew.
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --workspace --lib --filterset 'not package(integration-tests)' "$@"
else
  cargo test --workspace --lib --exclude integration-tests "$@"
fi
python=$(tests/setup/python.sh)
cd guest-image/runtime-tests
PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest test_units.py test_cut_off.py test_shapes.py test_preview.py
